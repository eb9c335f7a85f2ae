"""Finished sweeps of `benchmarks.composition` in a work folder, as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.papers import finished
from monoseme.papers.finished import Row

__all__ = ["Row", "mean", "over", "rows", "values"]


def rows(work: Path, name: str) -> list[Row]:
    """Every trial of a finished sweep; one that is not there, not finished, or has failures is refused."""
    return finished.rows(work, name, f"python -m benchmarks.composition {name} OUT")


def values(table: Sequence[Row], number: str, **where: Any) -> list[float]:
    """A number of the trials with these settings; those that do not have it are left out."""
    chosen = [row for row in table if all(row[key] == value for key, value in where.items())]
    if not chosen:
        raise refuse("sweep", "have such trials", str(where), "Was it made by this version?")
    return [row[number] for row in chosen if math.isfinite(row.get(number, math.nan))]


def mean(table: Sequence[Row], number: str, **where: Any) -> float:
    """Mean of `values`; NaN of none."""
    found = values(table, number, **where)
    return float(np.mean(found)) if found else math.nan


def over(names: Sequence[str], of: Callable[[str], float], key: str, unit: str = "share") -> dict[str, Outcome]:
    """Mean over targets of what `of` says of each, Student's 95 %, its ends as outcomes too, and every target's own.

    Targets of which it says NaN are left out.
    """
    each = {name: of(name) for name in names}
    known = [value for value in each.values() if math.isfinite(value)]
    if not known:
        return {key: Outcome(key, None, unit, note="no target has it")}
    found = mean_of(known)
    last = key.rsplit("/", 1)[1]
    whole = Outcome(last, found.value, unit, n=found.n, n_unit="targets")
    if found.n > 1:
        whole = replace(whole, low=found.low, high=found.high)
    ends = {"_low": found.low, "_high": found.high} if found.n > 1 else {}
    return (
        {key: whole}
        | {key + end: Outcome(last + end, value, unit, n=found.n, n_unit="targets") for end, value in ends.items()}
        | {f"{key}/{name}": Outcome(last, value, unit) for name, value in each.items() if math.isfinite(value)}
    )
