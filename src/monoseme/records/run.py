"""`RunRecord`: everything a run shows of itself, as typed data. Pages are drawn from it and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from monoseme.core.cards import BlockCard
from monoseme.core.errors import refuse
from monoseme.core.files import read_json, sha256, write_json, write_tensors
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry
from monoseme.records.cards import pack_cards, unpack_cards
from monoseme.records.film import FilmStrip, film_json, read_film
from monoseme.records.heat import Heat, heat_json, read_heat
from monoseme.records.scatter import Scatter, read_scatter, scatter_json

__all__ = ["Comparison", "Curve", "Histogram", "OutcomeGroup", "RunRecord", "SampleView", "relative_path"]

VERSION = 1
T = TypeVar("T")
RECORD, CARDS = "record.json", "cards.safetensors"


def relative_path(argument: str, path: str) -> str:
    """Return `path` when it is a plain relative POSIX path that stays below its folder; refuse anything else.

    Examples
    --------
    >>> relative_path("picture", "thumbnails/7.jpg")
    'thumbnails/7.jpg'
    """
    pure = PurePosixPath(path)
    bad = not path or pure.is_absolute() or ".." in pure.parts or "\\" in path or ":" in path or "\0" in path
    if bad or not pure.parts:
        raise refuse(
            argument,
            "be a relative path inside the record's folder",
            repr(path),
            'Use a name such as "thumbnails/7.jpg".',
        )
    return path


@dataclass(frozen=True)
class OutcomeGroup:
    """Numbers that belong under one heading; `note` says what they are about, in a sentence."""

    heading: str
    outcomes: tuple[Outcome, ...]
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """A table. Every row has one cell a column: text, or an outcome, which is drawn with its interval."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Outcome | str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise refuse(
                    "rows", f"have {len(self.columns)} cells, one a column", len(row), f'See the table "{self.title}".'
                )


@dataclass(frozen=True)
class Curve:
    """One quantity along another, for example loss over training steps. Points that are not finite are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    unit: str = ""
    x_name: str = "step"
    x_unit: str = ""
    better: Literal["lower", "higher"] | None = None
    log_y: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise refuse(
                "y", f"have one value for every x, {len(self.x)}", len(self.y), f'See the curve "{self.name}".'
            )


@dataclass(frozen=True)
class Histogram:
    """Counts between edges (one edge more than counts).

    With `log10`, the edges are powers of ten given by their exponents: densities, for example. `aside` are counts that
    have no place on the axis, by name: ``{"never active": 12}``.
    """

    name: str
    edges: Sequence[float]
    counts: Sequence[int]
    unit: str = ""
    log10: bool = False
    counted: str = "blocks"
    aside: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise refuse(
                "edges", f"be one more than counts, {len(self.counts) + 1}", len(self.edges), f'See "{self.name}".'
            )


@dataclass(frozen=True)
class SampleView:
    """How one sample is shown: a picture (path relative to the record's folder), or the tokens of a text; a label."""

    picture: str = ""
    tokens: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if self.picture:
            relative_path("picture", self.picture)


@dataclass(frozen=True)
class RunRecord:
    """What a run shows of itself.

    Attributes
    ----------
    title, kind
        What it is called, and what it is, a word above the title: ``"fit"``.
    facts
        Short texts in the order to show them: model, hook, data, split, featurizer, sizes.
    outcomes, comparisons, curves, histograms, scatters, heats
        Numbers, tables and charts.
    films
        Walks in pictures.
    cards
        One card a block.
    samples
        How the samples on the cards are shown, by sample id.
    notes
        Caveats, a sentence each.
    """

    title: str
    kind: str
    facts: Mapping[str, str] = field(default_factory=dict)
    outcomes: tuple[OutcomeGroup, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    curves: tuple[Curve, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    cards: tuple[BlockCard, ...] = ()
    samples: Mapping[str, SampleView] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    heats: tuple[Heat, ...] = ()
    films: tuple[FilmStrip, ...] = ()

    def save(self, folder: Path | str) -> Path:
        """Write record.json and cards.safetensors into `folder`; other files there are left alone.

        Each file is replaced in one step. The first names the hash of the second, so a mixture of two records is
        refused by `load`.
        """
        folder = Path(folder)
        index, tensors = pack_cards(self.cards)
        write_tensors(folder / CARDS, tensors)
        write_json(folder / RECORD, self._plain() | {"cards": index, "cards_sha256": sha256(folder / CARDS)})
        return folder

    def _plain(self) -> dict[str, Any]:
        return {
            "format": "monoseme.record",
            "version": VERSION,
            "title": self.title,
            "kind": self.kind,
            "facts": [[name, text] for name, text in self.facts.items()],
            "outcomes": [
                {"heading": g.heading, "note": g.note, "outcomes": [o.to_json() for o in g.outcomes]}
                for g in self.outcomes
            ],
            "comparisons": [_comparison_json(table) for table in self.comparisons],
            "curves": [vars(c) | {"x": _finite_json(c.x), "y": _finite_json(c.y)} for c in self.curves],
            "histograms": [
                vars(h)
                | {"edges": [float(e) for e in h.edges], "counts": [int(c) for c in h.counts]}
                | {"aside": {name: int(count) for name, count in h.aside.items()}}
                for h in self.histograms
            ],
            "samples": {id_: vars(view) | {"tokens": list(view.tokens)} for id_, view in self.samples.items()},
            "notes": list(self.notes),
            "scatters": [scatter_json(scatter) for scatter in self.scatters],
            "heats": [heat_json(heat) for heat in self.heats],
            "films": [film_json(film) for film in self.films],
        }

    @classmethod
    def load(cls, folder: Path | str) -> RunRecord:
        """Read a record; anything damaged, foreign or newer is refused in one line that names the file."""
        folder = Path(folder)
        root = Entry(read_json(folder / RECORD), str(folder / RECORD))
        if root.get("format", str) != "monoseme.record" or root.get("version", int) != VERSION:
            raise refuse(
                "folder",
                f"hold a record of version {VERSION}",
                root.path,
                "Make it again with this version of monoseme.",
            )
        if not (folder / CARDS).is_file() or sha256(folder / CARDS) != root.get("cards_sha256", str):
            raise refuse(
                "folder",
                f"hold the {CARDS} that {RECORD} names",
                folder,
                "The pair was mixed up or damaged; save it again.",
            )
        return cls(
            title=root.get("title", str),
            kind=root.get("kind", str),
            facts=dict(pair.pair(str, str) for pair in root.items("facts")),
            outcomes=tuple(
                OutcomeGroup(g.get("heading", str), tuple(o.outcome() for o in g.items("outcomes")), g.get("note", str))
                for g in root.items("outcomes")
            ),
            comparisons=tuple(_comparison(entry) for entry in root.items("comparisons")),
            curves=tuple(_curve(entry) for entry in root.items("curves")),
            histograms=tuple(entry.build(Histogram) for entry in root.items("histograms")),
            cards=unpack_cards(root.items("cards"), folder / CARDS),
            samples={name: _sample(entry) for name, entry in root.fields("samples")},
            notes=tuple(root.get("notes", list)),
            # records written before there were any
            scatters=_since(root, "scatters", read_scatter),
            heats=_since(root, "heats", read_heat),
            films=_since(root, "films", read_film),
        )


def _since(root: Entry, key: str, read: Callable[[Entry], T]) -> tuple[T, ...]:
    """Entries of a list that older records do not have."""
    return tuple(map(read, root.items(key))) if key in root.mapping() else ()


def _finite_json(values: Sequence[float]) -> list[float | None]:
    return [float(v) if math.isfinite(v) else None for v in values]


def _comparison_json(table: Comparison) -> dict[str, Any]:
    rows = [[cell.to_json() if isinstance(cell, Outcome) else cell for cell in row] for row in table.rows]
    return {"title": table.title, "columns": list(table.columns), "rows": rows, "note": table.note}


def _comparison(entry: Entry) -> Comparison:
    rows = tuple(
        tuple(cell.value if isinstance(cell.value, str) else cell.outcome() for cell in row.items())
        for row in entry.items("rows")
    )
    return Comparison(entry.get("title", str), tuple(entry.get("columns", list)), rows, entry.get("note", str))


def _curve(entry: Entry) -> Curve:
    holes = {key: [math.nan if v is None else v for v in entry.get(key, list)] for key in ("x", "y")}
    return Entry({**entry.mapping(), **holes}, entry.path).build(Curve)


def _sample(entry: Entry) -> SampleView:
    return Entry({**entry.mapping(), "tokens": tuple(entry.get("tokens", list))}, entry.path).build(SampleView)
