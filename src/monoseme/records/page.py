"""The page contract: ``page(record) -> Html``. Text becomes markup only here, and is escaped on the way."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from monoseme.core.errors import refuse

__all__ = ["CSP", "Html", "Markup", "Page", "escape", "tag"]

# nothing is fetched from anywhere but the page's own folder; no inline script or style runs, whatever a text contains
CSP = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'"
)
_VOID = {"br", "img", "input", "link", "meta"}


class Markup(str):
    """Text that is HTML already. Everything else is escaped by `tag`."""

    __slots__ = ()


# a child, or children inside children to any depth (which type checkers at run time cannot follow)
Child = str | int | None | Iterable[Any]


def escape(value: object) -> Markup:
    """Escape a value for a text or a quoted attribute; lone surrogates and control characters become U+FFFD.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    if isinstance(value, Markup):
        return value
    clean = "".join(
        "\ufffd" if (ch < " " and ch not in "\t\n\r") or "\ud800" <= ch <= "\udfff" else ch for ch in str(value)
    )
    return Markup(html.escape(clean, quote=True))


def tag(name: str, /, *children: Child, **attributes: Any) -> Markup:
    """Build one element. ``class_`` is class, ``data_x`` is data-x; an attribute of None or False is left out.

    Raises
    ------
    UserError
        For a link or source that leaves the folder of the page, or that is not a relative path.

    Examples
    --------
    >>> tag("p", "1 < 2 ", tag("b", "so"), class_="note")
    '<p class="note">1 &lt; 2 <b>so</b></p>'
    """
    parts = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if key in ("href", "src"):
            _check_link(str(value))
        parts.append(f" {key}" if value is True else f' {key}="{escape(value)}"')
    opening = f"<{name}{''.join(parts)}>"
    return Markup(opening if name in _VOID else f"{opening}{_join(children)}</{name}>")


def _join(children: Child) -> str:
    if children is None:
        return ""
    if isinstance(children, (str, int)):
        return escape(children)
    return "".join(_join(child) for child in children)


def _check_link(link: str) -> None:
    path = link.split("#")[0].split("?")[0]
    if ":" in path or path.startswith(("/", "\\")) or ".." in path.split("/"):
        raise refuse("link", "be a relative path inside the page's folder", repr(link), "Pages work offline.")


@dataclass(frozen=True)
class Html:
    """One page: a title, a body, and the names of the style sheets and scripts beside it.

    `connects`: whether its scripts may ask the server that the page came from.
    """

    title: str
    body: Markup
    styles: tuple[str, ...] = ("page.css",)
    scripts: tuple[str, ...] = ()
    connects: bool = False

    def document(self) -> str:
        """Return the whole document. It opens from a file, without a server or a network."""
        policy = CSP.replace("data:", "data: blob:") + "; connect-src 'self'" if self.connects else CSP
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", self.title),
            # an empty icon: browsers ask for one otherwise
            Markup('<link rel="icon" href="data:,">'),
            [tag("link", rel="stylesheet", href=name) for name in self.styles],
            [tag("script", src=name, defer=True) for name in self.scripts],
        )
        return f"<!doctype html>\n{tag('html', head, tag('body', self.body), lang='en')}\n"


class Page(Protocol):
    """A page is a pure function of a record."""

    def __call__(self, record: Any, /) -> Html:
        """Draw `record`."""
        ...
