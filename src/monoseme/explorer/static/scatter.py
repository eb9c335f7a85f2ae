"""A cloud of points whose axes a reader chooses: the markup here, the drawing in ``assets/scatter.js``."""

from __future__ import annotations

from typing import Any

from monoseme.core.outcome import Outcome
from monoseme.explorer.static.numbers import spoken
from monoseme.explorer.static.shards import script
from monoseme.records.page import Markup, tag
from monoseme.records.scatter import Scatter

__all__ = ["scatter_figure", "scatter_script"]


def scatter_figure(scatter: Scatter, number: int) -> Markup:
    """Draw what stands around the points: two lists of columns, a legend, a line for the point that is pointed at."""
    name = f"scatter-{number}"
    controls = tag(
        "form",
        [_choice(axis, label, scatter, chosen) for axis, label, chosen in (
            ("y", "Up", scatter.y), ("x", "Across", scatter.x),
        )],
        class_="controls",
        aria_label="Axes",
    )  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", tag("h3", scatter.title), tag("p", scatter.note, class_="lead") if scatter.note else None),
        tag("noscript", tag("p", "A script beside this page draws the points; it is switched off.", class_="lead")),
        controls,
        tag("div", class_="legend", role="group", aria_label="Series"),
        tag("div", tag("svg", aria_hidden="true"), class_="plot"),
        tag("p", class_="told", role="status"),
        class_="scatter",
        id=name,
    )


def _choice(axis: str, label: str, scatter: Scatter, chosen: str) -> list[Markup]:
    options = [
        tag("option", spoken(column), value=str(i), selected=column == chosen)
        for i, column in enumerate(scatter.columns)
    ]
    return [
        tag("label", label, tag("select", options, name=axis)),
        tag("label", "Log scale", tag("input", type="checkbox", name=f"log-{axis}"), class_="check"),
    ]


def scatter_script(scatter: Scatter, number: int) -> str:
    """Return the points as a script file. Values that are not known are null, and the page says how many there are."""
    first = [next((p.values[i] for p in scatter.points), None) for i in range(len(scatter.columns))]
    columns = [_column(name, outcome) for name, outcome in zip(scatter.columns, first, strict=True)]
    series = list(dict.fromkeys(p.series for p in scatter.points))
    points = [
        {
            "series": series.index(p.series),
            "label": p.label,
            "strand": p.strand,
            "values": [_triple(outcome) for outcome in p.values],
            "seeds": [list(column) for column in p.seeds],
        }
        for p in scatter.points
    ]
    return script("scatter", number, {"columns": columns, "series": series, "points": points})


def _column(name: str, outcome: Outcome | None) -> dict[str, Any]:
    unit = "" if outcome is None or outcome.unit == "1" else outcome.unit
    return {"name": name, "unit": unit, "better": "" if outcome is None else outcome.better or ""}


def _triple(outcome: Outcome) -> list[float | None]:
    plain = outcome.to_json()
    return [plain["value"], plain["low"], plain["high"]]
