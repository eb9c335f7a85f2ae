"""What the claims about steering digits are judged by, read from the finished sweep: nothing here trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import mean_of
from monoseme.papers.bsf.digit_steering import ATTRIBUTES
from monoseme.papers.bsf.walked_digits import KINDS
from monoseme.papers.finished import Row, rows

__all__ = ["COMMAND", "of_digits", "recipe"]

COMMAND = "python -m benchmarks.steer_digits WORK"
UNITS = {"off": "deviations", "target": "of the attribute", "strength": "1", "reached": "candidates"}


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure everything (see `records.reproduce`); all claims read the same sweep."""
    return of_digits(rows(work, "steered-digits", COMMAND))


def of_digits(table: Sequence[Row]) -> dict[str, Outcome]:
    """Means over fits of what every kind does, and of how much more the others move than a block."""
    found: dict[str, Outcome] = {}
    for attribute in ATTRIBUTES:
        mine = sorted((row for row in table if row["attribute"] == attribute), key=lambda row: row["draw"])
        for kind in KINDS:
            for what, unit in UNITS.items():
                found[f"{attribute}/{kind} {what}"] = _over_fits(what, [row[f"{kind} {what}"] for row in mine], unit)
        for kind in KINDS[1:]:
            gap = _over_fits("other minus block", [row[f"{kind} - block"] for row in mine], UNITS["off"])
            low = Outcome("low", gap.low, gap.unit, n=gap.n, n_unit=gap.n_unit, note=gap.note)
            found |= {f"{attribute}/{kind}": gap, f"{attribute}/{kind}_low": low}
    return found


def _over_fits(name: str, values: Sequence[float], unit: str) -> Outcome:
    """Student's interval over fits; not known where one of them never moved the target so far."""
    missed = sum(not math.isfinite(value) for value in values)
    if missed:
        return unknown(name, unit, f"the target was never moved so far in {missed} of {len(values)} fits")
    mean = mean_of(np.array(values))
    return Outcome(name, mean.value, unit, mean.low, mean.high, n=len(values), n_unit="fits")
