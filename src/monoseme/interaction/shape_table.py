"""The rows of a shape sweep as arrays: budget, depth, width, seed, and every number measured."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.errors import closest, refuse
from monoseme.learning import SweepResult
from monoseme.learning.numbers import as_outcome

__all__ = ["ShapeTable"]

SHAPE = ("budget", "depth", "width")


@dataclass(frozen=True)
class ShapeTable:
    """One row a trial.

    Attributes
    ----------
    budget
        Parameters the shape was chosen for.
    depth, width
        Layers, and units of a layer.
    seed
        Of initial weights and data.
    numbers
        What was measured, a column each; NaN where a trial has no value.
    """

    budget: Float64[np.ndarray, " n"]
    depth: Float64[np.ndarray, " n"]
    width: Float64[np.ndarray, " n"]
    seed: Int64[np.ndarray, " n"]
    numbers: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        for name, column in {**{key: getattr(self, key) for key in SHAPE}, **self.numbers}.items():
            if len(column) != len(self.seed):
                raise refuse(name, f"have one value a trial, {len(self.seed)}", len(column), "Give equal columns.")
        for name in SHAPE:
            column = getattr(self, name)
            if not (np.isfinite(column) & (column > 0)).all():
                raise refuse(name, "be positive", f"{column.min() if len(column) else 'nothing'}", "Correct the table.")

    @property
    def ratio(self) -> Float64[np.ndarray, " n"]:
        """R = depth / width of every trial."""
        return self.depth / self.width

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, smallest first."""
        return tuple(float(value) for value in np.unique(self.budget))

    def column(self, name: str) -> Float64[np.ndarray, " n"]:
        """A number of every trial; ``"log10 NAME"`` is its logarithm (NaN where it is not positive)."""
        plain = name.removeprefix("log10 ")
        if plain not in self.numbers:
            raise refuse("number", "be one that was measured", repr(plain), closest(plain, self.numbers))
        values = self.numbers[plain]
        if plain == name:
            return values
        return np.log10(values, out=np.full(len(values), np.nan), where=values > 0)

    def where(self, keep: np.ndarray) -> ShapeTable:
        """Return the rows that a mask or an index picks."""
        numbers = {name: column[keep] for name, column in self.numbers.items()}
        return ShapeTable(self.budget[keep], self.depth[keep], self.width[keep], self.seed[keep], numbers)

    def at(self, budget: float) -> ShapeTable:
        """Return the rows of one budget."""
        return self.where(self.budget == budget)

    def over_seeds(self) -> ShapeTable:
        """One row a shape: means over its seeds of the values that are there; `seed` becomes their count."""
        keys = np.stack([self.budget, self.depth, self.width], 1)
        shapes, owner = np.unique(keys, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        count = np.bincount(owner, minlength=len(shapes)).astype(np.int64)
        numbers = {name: _means(column, owner, len(shapes)) for name, column in self.numbers.items()}
        return ShapeTable(shapes[:, 0].copy(), shapes[:, 1].copy(), shapes[:, 2].copy(), count, numbers)

    @classmethod
    def from_sweep(cls, result: SweepResult) -> ShapeTable:
        """Take the finished trials of a sweep whose settings include budget, depth and width."""
        for name in SHAPE:
            if name not in result.settings:
                got = ", ".join(result.settings)
                raise refuse("sweep", f"have the setting {name}", got, "Pass the table of a shape sweep.")
        rows = [row for row in result.rows if row.status == "done"]
        if not rows:
            raise refuse("sweep", "have finished trials", "none", "Run it, or go on with it.")
        columns = [np.array([float(row.trial.settings[name]) for row in rows]) for name in SHAPE]
        values = {
            name: [as_outcome(name, row.numbers[name]).value if name in row.numbers else None for row in rows]
            for name in result.numbers
        }
        numbers = {name: np.array([np.nan if v is None else v for v in column]) for name, column in values.items()}
        return cls(*columns, seed=np.array([row.trial.seed for row in rows], np.int64), numbers=numbers)

    @classmethod
    def from_csv(cls, path: Path | str, columns: Mapping[str, str]) -> ShapeTable:
        """Read a CSV. `columns` maps each name wanted (budget, depth, width, maybe seed, numbers) to the file's own."""
        path = Path(path)
        try:
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError) as error:
            raise refuse("path", "be a CSV file", f"{path} ({error})", "Check the path.") from None
        if not rows:
            raise refuse("path", "hold rows", f"{path} without any", "Check the file.")
        found = {name: _read(path, rows, theirs) for name, theirs in columns.items()}
        for name in SHAPE:
            if name not in found:
                raise refuse("columns", f"name the column of {name}", ", ".join(columns), "Add it.")
        seed = found.pop("seed", np.zeros(len(rows))).astype(np.int64)
        return cls(*(found.pop(name) for name in SHAPE), seed=seed, numbers=found)


def _means(values: np.ndarray, owner: np.ndarray, groups: int) -> Float64[np.ndarray, " g"]:
    known = np.isfinite(values)
    total = np.bincount(owner[known], weights=values[known], minlength=groups)
    count = np.bincount(owner[known], minlength=groups)
    return np.divide(total, count, out=np.full(groups, np.nan), where=count > 0)


def _read(path: Path, rows: list[dict[str, str]], name: str) -> Float64[np.ndarray, " n"]:
    if name not in rows[0]:
        raise refuse("columns", "be in the file", f"{name!r}, not in {path}", closest(name, rows[0]))
    try:
        return np.array([float(row[name]) if row[name] not in ("", None) else np.nan for row in rows])
    except ValueError as error:
        raise refuse("path", "hold numbers", f"{path}, column {name} ({error})", "Correct that cell.") from None
