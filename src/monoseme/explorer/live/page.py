"""The page of the local server: blocks by search and order, something of your own, two runs side by side."""

from __future__ import annotations

from monoseme.records.page import Html, Markup, tag

__all__ = ["live_page"]


def live_page() -> Html:
    """Draw the frame; its script asks the server for the rest."""
    head = tag(
        "header",
        tag("p", "Runs", class_="kind"),
        tag("h1", "monoseme", id="title"),
        tag("p", id="facts", class_="lead"),
        tag("div", id="notes"),
        tag("label", "Run ", tag("select", id="run"), class_="pick"),
        tag("nav", [tag("a", text, href=f"#{id_}") for id_, text in SECTIONS], aria_label="Sections"),
        class_="top",
    )
    main = tag(
        "main",
        tag("p", id="message", role="status"),
        _section("blocks", _blocks()),
        _section("own", _own()),
        _section("compare", _compare()),
    )
    return Html("monoseme", Markup(head + main), styles=("page.css", "live.css"), scripts=("live.js",), connects=True)


SECTIONS = (("blocks", "Blocks"), ("own", "Try your own"), ("compare", "Compare two runs"))


def _section(id_: str, body: Markup) -> Markup:
    return tag("section", tag("h2", dict(SECTIONS)[id_]), body, id=id_)


def _blocks() -> Markup:
    hint = "A block's number, a word in what it fires on, or conditions on columns: density>0.01 energy_share<0.5."
    controls = tag(
        "form",
        tag("label", "Search ", tag("input", id="search", type="search", aria_describedby="hint"), class_="pick"),
        tag("label", "Sort by ", tag("select", id="sort"), class_="pick"),
        tag("label", tag("input", id="rising", type="checkbox"), " smallest first", class_="pick"),
        id="ask",
        class_="ask",
    )
    table = tag("table", tag("thead", id="head"), tag("tbody", id="rows"), class_="plain")
    pages = tag(
        "p",
        tag("button", "← Before", id="before", type="button"),
        tag("span", id="where", role="status"),
        tag("button", "Next →", id="next", type="button"),
        class_="pager",
    )
    return Markup(tag("p", hint, id="hint", class_="lead") + controls + _scroll("Table of blocks", table) + pages)


def _own() -> Markup:
    return Markup(
        tag("p", id="can", class_="lead")
        + tag(
            "form",
            tag(
                "label", "Picture ", tag("input", id="file", type="file", accept="image/*"), class_="pick", id="by-file"
            ),
            tag("label", "Text ", tag("textarea", id="text", rows=4), class_="pick wide", id="by-text"),
            tag("button", "Try", type="submit", id="go"),
            id="try",
        )
        + tag("p", id="fvu", role="status", class_="lead")
        + tag("div", id="found", class_="found")
    )


def _compare() -> Markup:
    table = tag("table", tag("thead", id="compared-head"), tag("tbody", id="compared"), class_="plain")
    return Markup(
        tag("label", "With ", tag("select", id="other"), class_="pick")
        + tag("p", id="alone", class_="lead")
        + _scroll("Two runs side by side", table)
    )


def _scroll(name: str, table: Markup) -> Markup:
    """A wide table, which the keyboard can scroll too."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)
