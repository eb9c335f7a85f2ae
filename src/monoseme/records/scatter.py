"""A cloud of points with several numbers each, any two of which can be drawn against one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry

__all__ = ["Scatter", "ScatterPoint", "read_scatter", "scatter_json"]


@dataclass(frozen=True)
class ScatterPoint:
    """One point.

    Attributes
    ----------
    series
        What has a colour of its own: the featurizer.
    label
        What it is, in words.
    values
        One outcome for every column of the scatter, with its interval.
    strand
        Points of one series and one strand are joined by a line, in the order given; none joins the empty strand.
    seeds
        The single values behind each mean, a column each; empty where there is no more than one.
    """

    series: str
    label: str
    values: tuple[Outcome, ...]
    strand: str = ""
    seeds: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Scatter:
    """Points, the names of their numbers, and the two that are drawn first."""

    title: str
    columns: tuple[str, ...]
    points: tuple[ScatterPoint, ...]
    x: str
    y: str
    note: str = ""

    def __post_init__(self) -> None:
        for axis, name in (("x", self.x), ("y", self.y)):
            if name not in self.columns:
                raise refuse(axis, "be one of the columns", repr(name), closest(name, self.columns))
        for point in self.points:
            if len(point.values) != len(self.columns) or len(point.seeds) not in (0, len(self.columns)):
                got = f"{len(point.values)} values and {len(point.seeds)} columns of seeds for {point.label!r}"
                raise refuse("points", f"have {len(self.columns)} values, one a column", got, f'See "{self.title}".')


def scatter_json(scatter: Scatter) -> dict[str, Any]:
    """Plain JSON values."""
    points = [
        {
            "series": p.series,
            "label": p.label,
            "strand": p.strand,
            "values": [outcome.to_json() for outcome in p.values],
            "seeds": [[float(v) for v in column] for column in p.seeds],
        }
        for p in scatter.points
    ]
    return {**vars(scatter), "columns": list(scatter.columns), "points": points}


def read_scatter(entry: Entry) -> Scatter:
    """Inverse of `scatter_json`."""
    texts = {name: entry.get(name, str) for name in ("title", "x", "y", "note")}
    columns = tuple(str(name) for name in entry.get("columns", list))
    return Scatter(columns=columns, points=tuple(_point(point) for point in entry.items("points")), **texts)


def _point(entry: Entry) -> ScatterPoint:
    return ScatterPoint(
        series=entry.get("series", str),
        label=entry.get("label", str),
        values=tuple(value.outcome() for value in entry.items("values")),
        strand=entry.get("strand", str),
        seeds=tuple(_numbers(column) for column in entry.items("seeds")),
    )


def _numbers(entry: Entry) -> tuple[float, ...]:
    values: Sequence[Any] = [item.value for item in entry.items()]
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        raise refuse(entry.path, "be a list of numbers", repr(values), "The file is damaged.")
    return tuple(float(v) for v in values)
