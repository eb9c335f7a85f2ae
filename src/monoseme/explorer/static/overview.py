"""The first page of a run: numbers first, then comparisons, curves, and the gallery of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monoseme.core.outcome import Outcome
from monoseme.explorer.static.charts import curve_chart, histogram_chart
from monoseme.explorer.static.film import film_figure
from monoseme.explorer.static.heat import heat_figure
from monoseme.explorer.static.numbers import cell, folded, outcome_tile, pager, spoken, whisker_domain
from monoseme.explorer.static.scatter import scatter_figure
from monoseme.records.page import Html, Markup, tag
from monoseme.records.run import Comparison, OutcomeGroup, RunRecord

__all__ = ["block_page", "controls", "facts_list", "notes_aside", "outcome_group", "overview_page"]

SORTABLE = 3  # rows from which on a table can be sorted
VIEWS = (("place", "Position as colour"), ("presence", "Presence"), ("plain", "Pictures only"))


def overview_page(record: RunRecord) -> Html:
    """Draw the first page. Needs ``data/index.js`` beside it for the gallery, ``data/scatters.js`` for the points."""
    sections = [
        _section("numbers", "Numbers", [outcome_group(group) for group in record.outcomes]),
        _section("scatters", "Charts", [scatter_figure(scatter, i) for i, scatter in enumerate(record.scatters)]),
        _section("films", "Film strips", [film_figure(film, i) for i, film in enumerate(record.films)]),
        _section("comparisons", "Comparisons", [_table(table) for table in record.comparisons]),
        _section("curves", "Curves", _charts(record)),
        _section("matrices", "Matrices", [heat_figure(heat, i) for i, heat in enumerate(record.heats)]),
        _section("parts", "Parts", _gallery(record)),
        _section("facts", "How it was made", facts_list(record.facts)),
    ]
    present = [section for section in sections if section]
    nav = tag("nav", [tag("a", title, href=f"#{id_}") for id_, title, _ in present], aria_label="Sections")
    head = tag(
        "header",
        tag("p", record.kind, class_="kind"),
        tag("h1", record.title),
        notes_aside(record.notes),
        _lead(record),
        nav,
        class_="top",
    )
    main = tag("main", [body for _, _, body in present])
    foot = tag("footer", "Drawn by monoseme from record.json. Works without a network.")
    return Html(record.title, Markup(head + main + foot), scripts=_scripts(record))


def _scripts(record: RunRecord) -> tuple[str, ...]:
    wanted = {
        "page.js": record.cards or record.scatters,
        "cloud.js": record.cards,
        "gallery.js": record.cards,
        "data/index.js": record.cards,
        "scatter.js": record.scatters,
        "data/scatters.js": record.scatters,
        "tables.js": any(len(table.rows) >= SORTABLE for table in record.comparisons),
    }
    return tuple(name for name, needed in wanted.items() if needed)


def block_page(record: RunRecord, above: Sequence[Markup] = (), below: Sequence[Markup] = ()) -> Html:
    """Draw the page of one block; which one stands in the address after ``#``. More sections go around its samples."""
    head = tag(
        "header",
        tag("p", tag("a", "← All parts", href="index.html#parts", id="back"), class_="kind"),
        tag("h1", "Block"),
        tag("p", record.title, class_="lead"),
        tag(
            "nav",
            tag("a", "← Previous", id="previous", rel="prev", class_="step"),
            tag("a", "Next →", id="next", rel="next", class_="step"),
            aria_label="Neighbouring blocks",
        ),
        class_="top",
    )
    cloud = tag(
        "figure",
        tag("figcaption", id="cloud-caption"),
        tag("canvas", id="cloud", tabindex=0, role="img"),
        class_="cloud",
    )
    numbers = tag("div", tag("h2", "Numbers"), tag("table", tag("tbody", id="numbers"), class_="plain"))
    shown = tag(
        "section",
        tag("h2", "Where it fires most"),
        tag("p", _legend(record), class_="lead"),
        _views(record),
        tag("div", id="shown", class_="shown"),
        id="held-out",
    )
    body = tag(
        "main",
        _noscript(),
        tag("p", id="message", role="status"),
        tag("section", cloud, numbers, class_="pair"),
        [above, shown, below],
    )
    return Html(
        f"Block – {record.title}", Markup(head + body), scripts=("page.js", "cloud.js", "block.js", "data/index.js")
    )


def _section(id_: str, title: str, body: list[Markup]) -> tuple[str, str, Markup] | None:
    return (id_, title, tag("section", tag("h2", title), body, id=id_)) if body else None


def notes_aside(notes: Sequence[str]) -> Markup | None:
    """What decides whether to believe the page, where nobody can miss it."""
    if not notes:
        return None
    said = tag("ul", [tag("li", note) for note in dict.fromkeys(notes)])
    return tag("aside", said, class_="notes", aria_label="Caveats")


def _lead(record: RunRecord) -> Markup | None:
    facts = list(record.facts.items())[:4]
    return (
        tag(
            "p",
            [
                [f"{name}: ", tag("span", text), " · " if i + 1 < len(facts) else ""]
                for i, (name, text) in enumerate(facts)
            ],
            class_="lead",
        )
        if facts
        else None
    )


def outcome_group(group: OutcomeGroup) -> Markup:
    """A heading, what it is about, and its numbers."""
    note = tag("p", group.note, class_="lead") if group.note else None
    tiles, lines = folded(group.outcomes)
    return tag(
        "div",
        tag("h3", group.heading),
        note,
        tag("dl", [outcome_tile(o) for o in tiles], class_="tiles"),
        [tag("p", line, class_="lead folded") for line in lines],
        class_="group",
    )


def _table(table: Comparison) -> Markup:
    columns = list(zip(*table.rows, strict=True)) if table.rows else [() for _ in table.columns]
    domains = [whisker_domain(c for c in column if isinstance(c, Outcome)) for column in columns]
    better = [next((c.better for c in column if isinstance(c, Outcome) and c.better), None) for column in columns]
    sortable = len(table.rows) >= SORTABLE
    heads = [
        tag(
            "th",
            tag("button", spoken(name), type="button") if sortable else spoken(name),
            tag("small", f"{way} is better") if way else None,
            scope="col",
            class_="number" if any(isinstance(c, Outcome) for c in column) else None,
        )
        for name, way, column in zip(table.columns, better, columns, strict=True)
    ]
    rows = [
        tag(
            "tr",
            [
                cell(c, d)
                if isinstance(c, Outcome)
                else tag("th" if j == 0 else "td", c, scope="row" if j == 0 else None)
                for j, (c, d) in enumerate(zip(row, domains, strict=True))
            ],
        )
        for row in table.rows
    ]
    note = tag("p", table.note, class_="lead") if table.note else None
    body = tag(
        "table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="plain sortable" if sortable else "plain"
    )
    return tag(
        "div",
        tag("h3", table.title),
        note,
        tag("p", "Scroll the table sideways to see all columns →", class_="hint") if len(table.columns) > 3 else None,
        tag("div", body, class_="scroll", tabindex=0, role="region", aria_label=table.title),
        class_="group",
    )


def _charts(record: RunRecord) -> list[Markup]:
    charts = [curve_chart(c) for c in record.curves] + [histogram_chart(h) for h in record.histograms]
    return [tag("div", charts, class_="charts")] if charts else []


def facts_list(facts: Mapping[str, str]) -> list[Markup]:
    """How it was made."""
    rows = [[tag("dt", name), tag("dd", text)] for name, text in facts.items()]
    return [tag("dl", rows, class_="facts")] if rows else []


def _noscript() -> Markup:
    return tag(
        "noscript",
        tag("p", "The cards are drawn by a script beside this page; it is switched off here.", class_="lead"),
    )


def _is_text(record: RunRecord) -> bool:
    return any(view.tokens for view in record.samples.values())


def _legend(record: RunRecord) -> str:
    strongest = "Each text is shown around its strongest token, which is underlined; ⏎ is a new line. "
    return (strongest if _is_text(record) else "") + (
        "Colour is the position inside the block (its first three principal directions as red, green and blue); "
        "opacity is the presence, as a share of the block's largest here. All samples are held out."
    )


def _views(record: RunRecord) -> Markup:
    views = [*VIEWS[:-1], (VIEWS[-1][0], "Text only" if _is_text(record) else VIEWS[-1][1])]
    radios = [
        tag("label", tag("input", type="radio", name="view", value=value, checked=i == 0), tag("span", text))
        for i, (value, text) in enumerate(views)
    ]
    return tag("fieldset", tag("legend", "Show", class_="hidden"), radios, class_="views")


def controls() -> Markup:
    """Search, order and range of the gallery. The script lists the quantities and keeps the state in the address."""
    return tag(
        "form",
        tag(
            "label",
            "Block",
            tag("input", name="q", type="search", placeholder="7, 20-40", autocomplete="off", inputmode="numeric"),
        ),
        tag("label", "Order by", tag("select", name="sort")),
        tag(
            "label",
            "Direction",
            tag(
                "select",
                tag("option", "largest first", value="desc"),
                tag("option", "smallest first", value="asc"),
                name="order",
            ),
        ),
        tag(
            "label",
            "From",
            tag("input", name="min", type="text", inputmode="decimal", placeholder="lowest", autocomplete="off"),
        ),
        tag(
            "label",
            "To",
            tag("input", name="max", type="text", inputmode="decimal", placeholder="highest", autocomplete="off"),
        ),
        tag("button", "Clear", type="reset"),
        id="controls",
        class_="controls",
        role="search",
        aria_label="Find parts",
    )


def _gallery(record: RunRecord) -> list[Markup]:
    if not record.cards:
        return []
    return [
        tag("p", _legend(record), class_="lead"),
        _noscript(),
        controls(),
        _views(record),
        tag("p", id="count", role="status"),
        tag("ol", id="cards", class_="cards"),
        pager("Pages of parts"),
    ]
