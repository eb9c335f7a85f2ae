"""The shape of one block's own codes and maps, for its card: dimensions that it uses, and how smooth it lies."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.outcome import Outcome, unknown
from monoseme.evaluation.dimension import FEWEST, RANKS, UNITS, ranks
from monoseme.evaluation.entries import Entries
from monoseme.evaluation.smoothness import dirichlet

__all__ = ["block_shape"]


def block_shape(entries: Entries, atoms: Float64[Tensor, "G b d"], block: int) -> tuple[Outcome, ...]:
    """Dimensions of the contributions where the block fires (`RANKS`, each 1…b); ``smoothness`` of its maps.

    A block of one dimension has only ``effective_rank``: the others say the same. Smoothness is a Dirichlet energy: a
    map is the presence at every token of a sample, with norm 1; its energy is the sum of squared differences of
    neighbours, the mean over samples where the block fires; lower is smoother, 4 is single tokens apart.
    """
    mine = entries.by_block[block]
    return (*_ranks(entries.values[mine], atoms[block]), _smooth(entries, mine))


def _ranks(values: Float64[np.ndarray, "m b"], atoms: Float64[Tensor, "b d"]) -> tuple[Outcome, ...]:
    m, b = values.shape
    names = RANKS if b > 1 else ("effective_rank",)
    units = {name: UNITS.get(name, "dims") for name in names}
    if m < FEWEST * b:
        return tuple(unknown(n, unit, f"it fires {m} times; {FEWEST * b} are needed") for n, unit in units.items())
    made = torch.from_numpy(values - values.mean(0)) @ atoms
    spectrum = torch.linalg.eigvalsh(made @ made.T if m < len(atoms[0]) else made.T @ made).clamp(min=0)[-b:]
    if float(spectrum.max()) <= 0:
        return tuple(unknown(name, unit, "its codes do not vary") for name, unit in units.items())
    found = ranks(spectrum[None])
    note = f"of its contributions, of {b}"
    return tuple(
        Outcome(name, float(found[name][0]), unit, n=m, n_unit="rows", note=note) for name, unit in units.items()
    )


def _smooth(entries: Entries, mine: np.ndarray) -> Outcome:
    from scipy.stats import t

    owner, position = entries.owners[mine], entries.row_position[entries.rows[mine]]
    found: dict[int, list[float]] = {}
    for sample in np.unique(owner).tolist():
        height, width = entries.grids[sample]
        if height * width < 2:
            continue
        here = owner == sample
        presence = np.zeros(height * width)
        presence[position[here]] = entries.presence[mine[here]]
        size = np.linalg.norm(presence)
        if size > 0:
            energy = float(dirichlet((presence / size).reshape(1, height, width))[0])
            found.setdefault(int(entries.groups[sample]), []).append(energy)
    if not found:
        return unknown("smoothness", "1", "it never fires on a sample of two tokens")
    sums, counts = (np.array([f(v) for v in found.values()], dtype=np.float64) for f in (sum, len))
    value, n = float(sums.sum() / counts.sum()), len(found)
    note = f"Dirichlet energy of its maps, mean of {int(counts.sum())}"
    ends: tuple[float | None, float | None] = (None, None)
    if n > 1:  # the linearised ratio: a bootstrap for every one of thousands of cards takes minutes
        error = np.sqrt(np.square(sums - value * counts).sum() * n / (n - 1)) / counts.sum()
        reach = float(t.ppf(0.975, n - 1) * error)
        ends = (value - reach, value + reach)
    return Outcome("smoothness", value, "1", *ends, better="lower", n=n, n_unit=entries.unit, note=note)
