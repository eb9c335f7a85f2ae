"""Finished sweeps in a work folder, a folder each, as the commands of the benchmarks leave them; names in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import closest, refuse
from monoseme.interaction.shape_table import ShapeTable
from monoseme.learning import SweepResult
from monoseme.learning.numbers import as_outcome
from monoseme.papers import finished

__all__ = [
    "COMMANDS",
    "ENERGY",
    "LOSS",
    "RATIO",
    "SIZE",
    "column",
    "shape_table",
    "sweep_table",
]

# folder below the work folder -> the command that fills it
COMMANDS = {
    "double-descent": "python -m benchmarks.double_descent OUT",
    "gpt": "python -m benchmarks.shape_sweep gpt OUT",
    "gpt-paper": "python -m benchmarks.shape_sweep gpt OUT --paper-size",
    "cnn": "python -m benchmarks.shape_sweep cnn OUT",
    "vit": "python -m benchmarks.shape_sweep vit OUT",
    "gru": "python -m benchmarks.shape_sweep gru OUT",
}
# numbers of a trial; "_out" and "_in" are the sides of the AGOP. ENERGY does not change with the scale of the outputs
LOSS, RATIO, ENERGY = "test_loss", "ratio_out", "normalised_aofe_out"
SIZE = "size"  # setting of double descent: training rows T


def sweep_table(work: Path, name: str) -> SweepResult:
    """Read the table of a finished sweep; one that is not there, not finished, or has failures is refused."""
    return finished.finished(work, name, COMMANDS[name])


def shape_table(work: Path, name: str) -> ShapeTable:
    """Read a finished shape sweep as arrays."""
    return ShapeTable.from_sweep(sweep_table(work, name))


def column(result: SweepResult, name: str) -> Float64[np.ndarray, " n"]:
    """One setting or number of every trial; NaN where it has no value."""
    if name in result.settings:
        return np.array([float(row.trial.settings[name]) for row in result.rows])
    if name not in result.numbers:
        known = [*result.settings, *result.numbers]
        raise refuse("sweep", f"have the column {name}", ", ".join(known), closest(name, known))
    values = [as_outcome(name, row.numbers[name]).value if name in row.numbers else None for row in result.rows]
    return np.array([np.nan if value is None else value for value in values])
