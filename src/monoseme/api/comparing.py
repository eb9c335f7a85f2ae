"""The page of a sweep: a chart whose axes can be chosen, the table of points over their seeds, and every trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monoseme.core.outcome import Outcome, unknown
from monoseme.explorer.static import write_pages
from monoseme.learning import PointSummary, SweepResult
from monoseme.learning.numbers import as_outcome
from monoseme.records import Comparison, RunRecord, Scatter, ScatterPoint

__all__ = ["describe_sweep", "sweep_page"]

# Drawn first, where they are. Where block sizes differ, equal L0 is not equal budget: active dims are compared instead.
AXES = {False: ("l0", "fvu"), True: ("active_dims", "fvu")}
SERIES = "featurizer"
MOST_TRIALS = 100  # rows of the table of single trials; all are in trials.csv


def sweep_page(
    result: SweepResult, out: str | Path, *, title: str = "", facts: Mapping[str, str] | None = None
) -> Path:
    """Make the page of a sweep in its folder `out`; returns the path of index.html.

    Parameters
    ----------
    result
        What `sweep` returned, or `SweepResult.load(out)`.
    out
        Folder for ``record.json`` and ``pages/``.
    title, facts
        Heading, and short texts to show under it, such as the store's name.
    """
    record = describe_sweep(result, title=title, facts=facts)
    record.save(out)
    return write_pages(record, Path(out) / "pages")


def describe_sweep(result: SweepResult, *, title: str = "", facts: Mapping[str, str] | None = None) -> RunRecord:
    """Gather what the page of a sweep shows."""
    seeds = sorted({row.trial.seed for row in result.rows})
    same, varied = _split_settings(result)
    done = sum(row.status == "done" for row in result.rows)
    about = {
        "Points": f"{len(result.points):,}",
        "Seeds": ", ".join(map(str, seeds)),
        "Trials": f"{done:,} of {len(result.rows):,} done",
        "In all of them": ", ".join(f"{name} {_text(value)}" for name, value in same.items()) or "nothing",
    }
    tables = [
        _points_table(result, varied, len(seeds)),
        _trials_table(result, varied, len(seeds)),
        _failures(result, varied),
    ]
    scatter = _scatter(result, varied, len(seeds))
    return RunRecord(
        title=title or f"A sweep of {result.identity.get('function', 'a function')}",
        kind="sweep",
        facts={**(facts or {}), **about},
        comparisons=tuple(table for table in tables if table is not None),
        scatters=(scatter,) if scatter else (),
        notes=_notes(result, len(seeds)),
    )


def _split_settings(result: SweepResult) -> tuple[dict[str, Any], list[str]]:
    """Settings that are the same at every point, and the names of the others."""
    same, varied = {}, []
    for name in result.settings:
        values = [_text(p.settings[name]) if name in p.settings else None for p in result.points]
        if len(set(values)) == 1:
            same[name] = result.points[0].settings[name]
        else:
            varied.append(name)
    return same, varied


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _points_table(result: SweepResult, varied: Sequence[str], seeds: int) -> Comparison:
    note = "Each number is the mean over seeds, with Student's t interval at 95 % over seeds."
    if seeds == 1:
        note = "One seed: no interval over seeds. What differs between two points may be the seed's doing."
    rows = tuple(
        (
            *(_text(point.settings[name]) if name in point.settings else "" for name in varied),
            *(_cell(name, point.numbers.get(name)) for name in result.numbers),
        )
        for point in result.points
    )
    return Comparison("Points", (*varied, *result.numbers), _filled(rows, result), note)


def _filled(rows: tuple[tuple[Any, ...], ...], result: SweepResult) -> tuple[tuple[Any, ...], ...]:
    """A table needs a column: where nothing varies and nothing was measured, there is no row either."""
    return rows if result.numbers or (rows and rows[0]) else ()


def _cell(name: str, value: Any) -> Outcome | str:
    if value is None:
        return unknown(name, "1", "not computed")
    return value if isinstance(value, str) else as_outcome(name, value)


def _trials_table(result: SweepResult, varied: Sequence[str], seeds: int) -> Comparison | None:
    if seeds == 1 and all(o.low is None for r in result.rows for o in r.numbers.values() if isinstance(o, Outcome)):
        return None  # it would say nothing that the table of points does not
    rows = tuple(
        (
            *(_text(row.trial.settings[name]) if name in row.trial.settings else "" for name in varied),
            str(row.trial.seed),
            *(_cell(name, row.numbers.get(name)) for name in result.numbers),
        )
        for row in result.rows[:MOST_TRIALS]
        if row.status == "done"
    )
    note = "Intervals here are those of each measurement: what another draw of held-out samples would change."
    if len(result.rows) > MOST_TRIALS:
        note += f" The first {MOST_TRIALS:,} of {len(result.rows):,} trials; all are in trials.csv."
    return Comparison("Single trials", (*varied, "seed", *result.numbers), rows, note)


def _failures(result: SweepResult, varied: Sequence[str]) -> Comparison | None:
    rows = tuple(
        (row.trial.label(varied) or "the only point", str(row.trial.seed), row.error) for row in result.failures
    )
    note = "The same command tries them once more. Tracebacks are in the trials' folders."
    return Comparison("Failed trials", ("point", "seed", "error"), rows, note) if rows else None


def _notes(result: SweepResult, seeds: int) -> tuple[str, ...]:
    missing = sum(row.status == "not run" for row in result.rows)
    notes = [
        "Points were compared on the same held-out samples: the best of many is flattered by being chosen. "
        "Choose on one split and report another."
    ]
    if seeds == 1:
        notes.append("One seed a point: nothing here says what another training seed would give.")
    if missing:
        notes.append(f"The sweep was stopped: {missing:,} trials were not run.")
    return tuple(notes)


def _scatter(result: SweepResult, varied: Sequence[str], seeds: int) -> Scatter | None:
    numbers = [n for n in result.numbers if any(isinstance(p.numbers.get(n), Outcome) for p in result.points)]
    numeric = [name for name in varied if any(_is_number(p.settings.get(name)) for p in result.points)]
    columns = (*numbers, *numeric)
    if not numbers or len(columns) < 2:
        return None
    axes = AXES["block_size" in varied]
    x, y = axes if set(axes) <= set(columns) else ((numeric or numbers[1:])[0], numbers[0])
    words = [name for name in varied if name not in numeric]
    points = tuple(_point(point, words, numbers, numeric) for point in _along(result.points, words, numeric))
    note = "A mark is the mean over seeds and its whiskers are the interval over seeds; small rings are single seeds."
    if seeds == 1:
        note = "One seed a point: there is no interval over seeds."
    return Scatter(
        "Every point by any two numbers", columns, points, x, y, f"{note} Lines join points that differ in one setting."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _line_setting(points: Sequence[PointSummary], numeric: Sequence[str]) -> str:
    """The setting along which points are joined: the number that takes the most values."""
    counts = {name: len({p.settings[name] for p in points if _is_number(p.settings.get(name))}) for name in numeric}
    return max(counts, key=lambda name: counts[name], default="")


def _along(
    points: Sequence[PointSummary], words: Sequence[str], numeric: Sequence[str]
) -> list[tuple[PointSummary, str, str]]:
    """Points in the order in which lines go through them, each with its series and the setting it is joined along.

    A series is a featurizer with those of its settings that are words: what has a name of its own has a colour.
    """
    series: dict[str, list[PointSummary]] = {}
    for point in points:
        peers = [p for p in points if p.settings.get(SERIES) == point.settings.get(SERIES)]
        own = [n for n in words if n != SERIES and len({_text(p.settings.get(n)) for p in peers}) > 1]
        parts = [_text(point.settings[SERIES])] if SERIES in point.settings else []
        parts += [f"{name} {_text(point.settings[name])}" for name in own if name in point.settings]
        series.setdefault(", ".join(parts), []).append(point)
    ordered = []
    for name, members in series.items():
        along = _line_setting(members, numeric)
        ordered += [(p, name, along) for p in sorted(members, key=lambda p, a=along: _place(p.settings.get(a)))]
    return ordered


def _place(value: object) -> tuple[bool, float]:
    """Numbers in their order, and behind them whatever else the setting was given."""
    return not _is_number(value), float(value) if _is_number(value) else 0.0  # pyright: ignore[reportArgumentType]


def _point(
    given: tuple[PointSummary, str, str], words: Sequence[str], numbers: Sequence[str], numeric: Sequence[str]
) -> ScatterPoint:
    point, series, along = given
    named = [name for name in (*words, *numeric) if name in point.settings and name != SERIES]
    strand = ", ".join(f"{name} {_text(point.settings[name])}" for name in named if name != along)
    values = [_outcome(point, name) for name in (*numbers, *numeric)]
    seeds = _each_seed(point, numbers)
    columns = [*seeds, *((float(o.value or 0),) * len(seeds[0]) for o in values[len(numbers) :])]
    return ScatterPoint(
        series=series,
        label=", ".join(f"{name} {_text(point.settings[name])}" for name in numeric if name in point.settings),
        values=tuple(values),
        strand=f"along {along}: {strand}" if along in point.settings else "",
        seeds=tuple(columns) if len(seeds[0]) > 1 else (),
    )


def _each_seed(point: PointSummary, numbers: Sequence[str]) -> list[tuple[float, ...]]:
    """Every number at every seed that knows them all, a column a number."""
    rows = [[as_outcome(n, row.numbers[n]) for n in numbers] for row in point.rows if {*numbers} <= row.numbers.keys()]
    whole = [row for row in rows if all(outcome.known for outcome in row)]
    return [tuple(float(row[i].value or 0) for row in whole) for i in range(len(numbers))]


def _outcome(point: PointSummary, name: str) -> Outcome:
    value = point.numbers.get(name, point.settings.get(name))
    if isinstance(value, Outcome):
        return value
    return Outcome(name, float(value), "") if _is_number(value) else unknown(name, "", "not computed")  # pyright: ignore
