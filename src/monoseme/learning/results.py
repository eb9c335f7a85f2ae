"""What a sweep found: every trial, points over their seeds, and both as CSV and JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path, read_json, write_json
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.parse import Entry
from monoseme.core.stats import mean_of
from monoseme.learning.numbers import Value, as_outcome, columns_of, pack, unpack
from monoseme.learning.points import Trial
from monoseme.learning.trial import DONE, read_failure

__all__ = ["PointSummary", "SweepResult", "TrialResult"]

FORMAT, VERSION = "monoseme.sweep", 1
TABLE = "sweep.json"


@dataclass(frozen=True)
class TrialResult:
    """One trial: what it was, and what came of it.

    Attributes
    ----------
    trial
        Settings and seed.
    status
        ``"done"``, ``"failed"``, or ``"not run"`` when the sweep was stopped before.
    numbers
        What the function returned.
    error
        Why it failed, in one line; the traceback is in the trial's folder.
    """

    trial: Trial
    status: Literal["done", "failed", "not run"]
    numbers: Mapping[str, Value]
    error: str = ""


@dataclass(frozen=True)
class PointSummary:
    """One point over its seeds: each number's mean with Student's t interval over seeds, and the trials behind it."""

    settings: Mapping[str, Any]
    numbers: Mapping[str, Outcome | str]
    rows: tuple[TrialResult, ...]


@dataclass(frozen=True)
class SweepResult:
    """All trials of a sweep, in the order they were declared.

    Attributes
    ----------
    rows
        One for each trial.
    identity
        The function's name, and what the caller said of it.
    folder
        Where the trials' folders are.
    """

    rows: tuple[TrialResult, ...]
    identity: Mapping[str, Any]
    folder: Path

    @classmethod
    def gather(cls, trials: Iterable[Trial], folder: Path, identity: Mapping[str, Any]) -> SweepResult:
        """Read what lies in the trials' folders: any process sees the same."""
        return cls(tuple(_read(trial, folder / trial.name) for trial in trials), identity, folder)

    @property
    def failures(self) -> tuple[TrialResult, ...]:
        """Trials that failed."""
        return tuple(row for row in self.rows if row.status == "failed")

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings, in order of appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.trial.settings))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names of what was measured, in order of appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.numbers))

    @cached_property
    def points(self) -> tuple[PointSummary, ...]:
        """Points over their seeds, in order."""
        groups: dict[str, list[TrialResult]] = {}
        for row in self.rows:
            groups.setdefault(Trial(row.trial.settings, 0).name, []).append(row)
        return tuple(_summary(self.numbers, rows) for rows in groups.values())

    def save(self, out: Path) -> None:
        """Write ``sweep.json``, ``trials.csv`` and ``points.csv`` into `out`, each in one step."""
        known = {name: self._example(name) for name in self.numbers}
        trials = [
            (row.trial.settings, {"seed": row.trial.seed, "status": row.status}, row.numbers, {"error": row.error})
            for row in self.rows
        ]
        points = [(p.settings, {"seeds": sum(r.status == "done" for r in p.rows)}, p.numbers, {}) for p in self.points]
        _write_csv(out / "trials.csv", self.settings, known, trials)
        means = {name: unknown(name, "1", "") if not isinstance(v, str) else v for name, v in known.items()}
        _write_csv(out / "points.csv", self.settings, means, points)
        write_json(out / TABLE, self._plain(known))

    def _example(self, name: str) -> Value:
        """A value of that name; an outcome if there is one, for its unit and its columns."""
        values = [row.numbers[name] for row in self.rows if name in row.numbers]
        return next((value for value in values if isinstance(value, Outcome)), values[0])

    def _plain(self, known: Mapping[str, Value]) -> dict[str, Any]:
        units = {name: as_outcome(name, v) for name, v in known.items()}
        return {
            "format": FORMAT,
            "version": VERSION,
            "identity": self.identity,
            "settings": list(self.settings),
            "numbers": [{"name": name, "unit": o.unit, "better": o.better} for name, o in units.items()],
            "trials": [
                {
                    "settings": [[name, value] for name, value in row.trial.settings.items()],
                    "seed": row.trial.seed,
                    "folder": f"{self.folder.name}/{row.trial.name}",
                    "status": row.status,
                    "error": row.error,
                    "numbers": pack(row.numbers),
                }
                for row in self.rows
            ],
            "points": [
                {"settings": [[name, value] for name, value in p.settings.items()], "numbers": pack(p.numbers)}
                for p in self.points
            ],
        }

    @classmethod
    def load(cls, out: str | Path) -> SweepResult:
        """Read the table of a sweep's folder; anything damaged or foreign is one line that names the file."""
        out = Path(out)
        root = Entry(read_json(out / TABLE), str(out / TABLE))
        if (root.get("format", str), root.get("version", int)) != (FORMAT, VERSION):
            raise refuse("out", f"hold a {FORMAT} of version {VERSION}", root.path, "Run the sweep again.")
        rows = []
        for entry in root.items("trials"):
            settings = {name: value for name, value in (_pair(pair) for pair in entry.items("settings"))}
            status: Any = entry.get("status", str)
            trial = Trial(settings, entry.get("seed", int))
            rows.append(TrialResult(trial, status, unpack(entry.items("numbers")), entry.get("error", str)))
        return cls(tuple(rows), root.get("identity", dict), out / "trials")


def _pair(entry: Entry) -> tuple[str, Any]:
    values = entry.value
    if not isinstance(values, list) or len(values) != 2 or not isinstance(values[0], str):
        raise refuse(entry.path, "be a pair of name and value", repr(values), "The file is damaged.")
    return values[0], values[1]


def _read(trial: Trial, folder: Path) -> TrialResult:
    failed = read_failure(folder)  # looked at first: a trial that succeeds meanwhile loses it after it gets its result
    if (folder / DONE).exists():
        done = Entry(read_json(folder / DONE), str(folder / DONE))
        return TrialResult(trial, "done", unpack(done.items("numbers")))
    if failed is not None:
        return TrialResult(trial, "failed", {}, failed.get("error", str))
    return TrialResult(trial, "not run", {})


def _summary(names: Sequence[str], rows: Sequence[TrialResult]) -> PointSummary:
    done = [row for row in rows if row.status == "done"]
    numbers: dict[str, Outcome | str] = {}
    for name in names:
        values = [row.numbers[name] for row in done if name in row.numbers]
        if values and all(isinstance(value, str) for value in values):
            if len(set(values)) == 1:  # a text is a property of the point only when every seed gives it
                numbers[name] = str(values[0])
        elif values:
            numbers[name] = _over_seeds(name, [as_outcome(name, value) for value in values], len(rows))
    return PointSummary(rows[0].trial.settings, numbers, tuple(rows))


def _over_seeds(name: str, values: Sequence[Outcome], seeds: int) -> Outcome:
    first, known = values[0], [o.value for o in values if o.known and o.value is not None]
    if not known:
        return unknown(name, first.unit, first.note or "not computed")
    mean = mean_of(known)
    note = f"mean of {mean.n} seeds, standard error {mean.standard_error:.3g}; Student's t interval over seeds"
    if mean.n == 1:
        note = "one seed: no interval over seeds"
    if mean.n < seeds:
        note += f"; {seeds - mean.n} of {seeds} seeds have no value"
    low, high = (None, None) if math.isnan(mean.low) else (mean.low, mean.high)
    if first.unit == "share" and low is not None and high is not None:  # a symmetric interval knows no ends
        low, high = max(low, 0.0), min(high, 1.0)
    return Outcome(
        name, mean.value, first.unit, low, high, better=first.better, n=mean.n, n_unit="seeds", note=note
    )  # fmt: skip


Line = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Value], Mapping[str, Any]]


def _write_csv(path: Path, settings: Sequence[str], known: Mapping[str, Value], lines: Sequence[Line]) -> None:
    """One line a trial or point: settings, whose run it was, numbers with their intervals, error."""
    before, after = (list(lines[0][1]), list(lines[0][3])) if lines else ([], [])
    measured = [column for name, value in known.items() for column in columns_of(name, value)]
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*settings, *before, *measured, *after])
        for point, about, numbers, error in lines:
            cells: dict[str, Any] = {}
            for name, value in numbers.items():
                known_parts = (value.value, value.low, value.high) if isinstance(value, Outcome) else (value,)
                cells |= dict(zip(columns_of(name, value), known_parts, strict=True))
            row = [*(point.get(name, "") for name in settings), *about.values()]
            writer.writerow([_cell(value) for value in [*row, *(cells.get(m) for m in measured), *error.values()]])


def _cell(value: Any) -> Any:
    """Text as it is, numbers so that they read back to the same bits, nothing for what is not there."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return value if isinstance(value, str) else json.dumps(value)
