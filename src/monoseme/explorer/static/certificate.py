"""The certificate page: which features are real as far as can be proved, how much loss says so, who is involved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from monoseme.core.outcome import Outcome, plural
from monoseme.explorer.static.certificate_data import POINTS
from monoseme.explorer.static.certificate_words import (
    ABOUT,
    CALLED,
    GLOSSARY,
    HEADS,
    MEANING,
    ORDERS,
    VERDICT_WORDS,
    WORDS,
)
from monoseme.explorer.static.charts import histogram_chart
from monoseme.explorer.static.numbers import figure, outcome_tile, pager
from monoseme.records.certificates import VERDICTS, CertificateTable
from monoseme.records.page import Html, Markup, tag
from monoseme.records.run import Histogram

__all__ = ["certificate_page"]


def certificate_page(table: CertificateTable) -> Html:
    """Draw the page. Needs ``data/certificates.js`` and its shards beside it."""
    sections = [
        ("numbers", "In short", _numbers(table)),
        ("pairs", "Pairs", _pairs(table)),
        ("features", "Features", _features()),
        ("reading", "How to read it", [_terms(GLOSSARY)]),
        ("facts", "How it was made", [_terms(table.facts.items())]),
    ]
    nav = tag("nav", [tag("a", title, href=f"#{id_}") for id_, title, _ in sections], aria_label="Sections")
    head = tag(
        "header",
        tag("p", "certificates", class_="kind"),
        tag("h1", table.title),
        _notes(table),
        tag("p", _headline(table), class_="lead"),
        nav,
        class_="top",
    )
    main = tag("main", [tag("section", tag("h2", title), body, id=id_) for id_, title, body in sections])
    foot = tag("footer", "Drawn by monoseme from certificates.json. Works without a network.")
    scripts = ("page.js", "certificate.js", "pairs.js", "data/certificates.js")
    return Html(table.title, Markup(head + main + foot), ("page.css", "certificate.css"), scripts)


def _terms(pairs: Iterable[tuple[str, str]]) -> Markup:
    return tag("dl", [[tag("dt", name), tag("dd", text)] for name, text in pairs], class_="facts")


def _notes(table: CertificateTable) -> Markup | None:
    """What decides whether to believe the page, where nobody can miss it."""
    if not table.notes:
        return None
    said = tag("ul", [tag("li", note) for note in dict.fromkeys(table.notes)])
    return tag("aside", said, class_="notes", aria_label="Caveats")


def _headline(table: CertificateTable) -> str:
    total, bad = len(table.features), table.count("unstable")
    are = "is" if bad == 1 else "are"
    return (
        f"{figure(bad)} of {figure(total)} {plural(total, 'features')} {are} unstable, "
        f"{figure(table.count('stable'))} stable; of {figure(table.count('unknown'))} it is not known. "
        f"{ABOUT[table.settings.about]}{_rows(table)}"
    )


def _rows(table: CertificateTable) -> str:
    """How many rows stand behind the verdicts, when that was kept."""
    rows, held = table.facts.get("Rows"), table.facts.get("Rows held out")
    return f" Rows: {rows}{f', and {held} held out' if held else ''}." if rows else ""


def _numbers(table: CertificateTable) -> list[Markup]:
    numbers = sorted((o for o in table.numbers if o.name not in MEANING), key=_place)
    return [
        _bar(table),
        _tiles("Loss", f"Of E‖zW + b − x‖² + 2λ‖z‖₁ at λ = {figure(table.settings.lam)}.", numbers),
        _tiles(
            "First-order conditions",
            "What every optimum obeys: K1 for the codes, K2 for the atoms, K3 for the bias. 0 is obeyed. Verdicts hold "
            "for these codes, and this is how far they are from optimal: where K1 is large, re-solve them "
            "(codes='resolved'); where K2 or K3 is, train longer.",
            table.kkt,
        ),
        _histograms(table),
    ]


def _sure(table: CertificateTable, verdict: str) -> str:
    """The interval of a verdict's share, when it was computed."""
    share = next((o for o in table.numbers if o.name == verdict and o.known), None)
    if share is None or share.value is None or share.low is None or share.high is None:
        return ""
    low, high, all_ = (f"{100 * value:.1f}" for value in (share.low, share.high, share.value))
    interval = f"{100 * share.confidence:.3g} % interval {low} to {high} %"
    return f"{all_} % of {figure(share.n or 0)} that are ever active ({interval})"


def _place(outcome: Outcome) -> int:
    return list(CALLED).index(outcome.name) if outcome.name in CALLED else len(CALLED)


def _tiles(heading: str, note: str, outcomes: Sequence[Outcome]) -> Markup:
    if not outcomes:
        return Markup("")
    named = [replace(o, name=CALLED.get(o.name, o.name)) for o in outcomes]
    body = tag("dl", [outcome_tile(o) for o in named], class_="tiles")
    return tag("div", tag("h3", heading), tag("p", note, class_="lead"), body, class_="group")


def _bar(table: CertificateTable) -> Markup:
    """One bar of the verdicts, in proportion; the words beside it say the same."""
    total, at, parts, legend = max(len(table.features), 1), 0.0, [], []
    blocks = len(table.features) > 0 and not table.features.side.any()
    for verdict, word, sign in VERDICT_WORDS:
        count = table.count(verdict)  # pyright: ignore[reportArgumentType]
        width = 1000 * count / total
        tip = f"{word}: {figure(count)}"
        parts.append(
            tag("rect", tag("title", tip), x=f"{at:.2f}", y=0, width=f"{width:.2f}", height=22, class_=verdict)
        )
        at += width
        share = tag("span", f" {100 * count / total:.1f} %", class_="unit")
        name = tag("dt", tag("span", sign, class_=f"sign {verdict}", aria_hidden="true"), f" {word}")
        value = tag("dd", tag("span", figure(count), class_="value"), share)
        meaning = MEANING[verdict][table.settings.about]
        how = [tag("dd", meaning, class_="how")]
        if verdict == "unknown":
            how += [tag("dd", f"{figure(n)}: {why}", class_="how") for why, n in _reasons(table)]
        if verdict == "stable" and blocks:
            how = [tag("dd", "blocks are never called stable: that proof is not computed for them", class_="how")]
        sure = tag("dd", _sure(table, verdict), class_="sure")
        legend.append(tag("div", name, value, sure, how, class_=f"tile {verdict}"))
    svg = tag("svg", parts, viewBox="0 0 1000 22", preserveAspectRatio="none", class_="verdict-bar", aria_hidden="true")
    return tag("div", svg, tag("dl", legend, class_="tiles three"), class_="group")


def _reasons(table: CertificateTable) -> list[tuple[str, int]]:
    """Why features are unknown, and how many; what a reason says behind a colon is about one feature."""
    unknown = np.flatnonzero(table.features.verdict == VERDICTS.index("unknown")).tolist()
    return Counter(table.features.why[j].partition(":")[0] for j in unknown).most_common()


def _histograms(table: CertificateTable) -> Markup:
    """How much the unstable features are worth, and how strained all are."""
    loss, strain = table.features.removable_loss, table.features.strain
    bounded, endless = strain[np.isfinite(strain)], int(np.isinf(strain).sum())
    charts = [
        _histogram("removable loss", "‖x‖²", "unstable features", loss[loss > 0], {}),
        _histogram("strain", "at least", "features", bounded, {"infinite": endless} if endless else {}),
    ]
    return tag("div", charts, class_="group charts")


def _histogram(name: str, unit: str, counted: str, values: np.ndarray, aside: dict[str, int]) -> Markup:
    """Counts of positive numbers by quarters of a power of ten; nothing for fewer than two."""
    if len(values) < 2:
        return Markup("")
    quarters = np.floor(4 * np.log10(values)).astype(np.int64)
    low, high = int(quarters.min()), int(quarters.max()) + 1
    counts = np.bincount(quarters - low, minlength=high - low)
    edges = (np.arange(low, high + 1) / 4).tolist()
    return histogram_chart(Histogram(name, edges, counts.tolist(), unit, True, counted, aside))


def _pairs(table: CertificateTable) -> list[Markup]:
    if not len(table.pairs):
        why = "No pair to draw: no feature is strained by another, or the atoms were not given."
        return [tag("p", why, class_="lead")]
    said = (
        "Each feature beside the one that strains it most. Far up with a large cosine is absorption; ∞ is a strict "
        "hierarchy, drawn along the upper edge. Point at a mark, or step through them with the arrow keys; a click or "
        "Enter goes to the row of its first feature."
    )
    if len(table.pairs) > POINTS:
        said += f" Drawn are the {figure(POINTS)} pairs of the largest strain."
    return [
        tag("p", said, class_="lead"),
        _noscript(),
        tag("div", id="pair-legend", class_="legend", role="group", aria_label="Verdicts"),
        tag("div", tag("svg", aria_hidden="true"), id="pair-plot", class_="plot"),
        tag("p", id="pair-told", class_="told", role="status"),
    ]


def _noscript() -> Markup:
    return tag("noscript", tag("p", "A script beside this page draws this; it is switched off here.", class_="lead"))


def _features() -> list[Markup]:
    heads = [
        tag(
            "th",
            tag("button", word, type="button", data_sort=key),
            scope="col",
            class_=None if key in WORDS else "number",
        )
        for key, word in HEADS
    ]
    body = tag(
        "table",
        tag("caption", "Features, one a row", class_="hidden"),
        tag("thead", tag("tr", heads, tag("th", "Why", scope="col"))),
        tag("tbody", id="rows"),
        class_="plain sortable certificates",
    )
    return [_noscript(), _controls(), tag("p", id="count", role="status"), body, pager("Pages of features")]


def _controls() -> Markup:
    """Search, verdict, order and range; the script keeps the state in the address."""
    choices = [("", "All"), *((verdict, word) for verdict, word, *_ in VERDICT_WORDS)]
    radios = [
        tag(
            "label", tag("input", type="radio", name="verdict", value=value, checked=value == ""),
            tag("span", word[0].upper() + word[1:]),
        ) for value, word in choices
    ]  # fmt: skip
    orders = [tag("option", word, value=key) for key, word in ORDERS]
    ways = [tag("option", "largest first", value="desc"), tag("option", "smallest first", value="asc")]
    number = {"type": "text", "inputmode": "decimal", "autocomplete": "off"}
    return tag(
        "form",
        tag("fieldset", tag("legend", "Verdict", class_="hidden"), radios, class_="views"),
        tag(
            "label", "Feature",
            tag("input", name="q", type="search", placeholder="7, 20-40", autocomplete="off", inputmode="numeric"),
        ),
        tag("label", "Order by", tag("select", orders, name="sort")),
        tag("label", "Direction", tag("select", ways, name="order")),
        tag("label", "From", tag("input", name="min", placeholder="lowest", **number)),
        tag("label", "To", tag("input", name="max", placeholder="highest", **number)),
        tag("button", "Clear", type="reset"),
        id="controls",
        class_="controls",
        role="search",
        aria_label="Find features",
    )  # fmt: skip
