"""The numbers on a block's card: how often it fires, where, how strongly, and how much of the energy is its own."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.stats import ratio_intervals
from monoseme.evaluation.block_shape import block_shape
from monoseme.evaluation.entries import Entries

__all__ = ["NOT_COMPUTED", "block_numbers"]

# Numbers a card has room for and nobody computes yet; a card says so instead of leaving them out.
NOT_COMPUTED = (
    ("description_length", "bits/row"),
    ("certificate", "1"),
    ("sensitivity", "1"),
    ("probe", "1"),
)


def block_numbers(
    entries: Entries, atoms: Float64[Tensor, "G b d"], wanted: list[int], seed: int = 0
) -> dict[int, tuple[Outcome, ...]]:
    """Numbers of the wanted blocks; intervals come from resampling groups of samples.

    Returns
    -------
    dict
        For every block: ``density`` (share of rows), ``energy_share`` (Σ‖z_g D_g‖² over that of all blocks),
        ``mean_presence`` and ``max_presence`` (‖z_g‖ where it fires), ``reach`` (share of samples in which it fires
        anywhere), dimensions and ``smoothness`` (see `block_shape`); then the numbers whose rooms are not
        built yet, unknown.
    """
    fired = _per_sample(entries, wanted, np.ones(len(entries.blocks)))
    presence = _per_sample(entries, wanted, entries.presence)
    energy = contribution_energy(entries, atoms)
    n_samples = len(entries.samples)
    rows = np.bincount(entries.row_sample, minlength=n_samples).astype(np.float64)[:, None]
    total = np.bincount(entries.owners, weights=energy, minlength=n_samples)[:, None]
    own, each = _per_sample(entries, wanted, energy), np.ones((n_samples, 1))
    over = f"{entries.code.n_rows} rows of {n_samples} {plural(n_samples, 'samples')}"
    somewhere = (fired > 0).astype(np.float64)
    columns = [
        _ratios("density", "share", (fired, rows), f"rows on which it fires; {over}", entries, seed),
        _ratios("energy_share", "share", (own, total), "Σ‖z D‖² of it ÷ that of all blocks", entries, seed),
        _ratios("mean_presence", "activation units", (presence, fired), "mean ‖z‖ where it fires", entries, seed),
        _strongest(entries, wanted),
        _ratios("reach", "share", (somewhere, each), "samples in which it fires", entries, seed),
    ]
    empty = tuple(unknown(name, unit, "not computed") for name, unit in NOT_COMPUTED)
    shapes = {g: block_shape(entries, atoms, g) for g in wanted}
    return {g: (*(column[q] for column in columns), *shapes[g], *empty) for q, g in enumerate(wanted)}


def contribution_energy(entries: Entries, atoms: Float64[Tensor, "G b d"]) -> Float64[np.ndarray, " nnz"]:
    """‖z_g D_g‖² of every entry, by the Gram matrices of the blocks: never (nnz, d)."""
    gram = (atoms @ atoms.mT).numpy()
    energy = np.empty(len(entries.blocks))
    for start in range(0, len(energy), 1 << 18):  # (entries, b, b), a piece at a time
        part = slice(start, start + (1 << 18))
        z = entries.values[part]
        energy[part] = np.einsum("eb,ebc,ec->e", z, gram[entries.blocks[part]], z)
    return energy


def _per_sample(
    entries: Entries, wanted: list[int], weights: Float64[np.ndarray, " nnz"]
) -> Float64[np.ndarray, "s q"]:
    """Sum of weights for every pair (sample, wanted block)."""
    column = np.full(entries.code.n_blocks, -1)
    column[wanted] = np.arange(len(wanted))
    of_entry = column[entries.blocks]
    mine = of_entry >= 0
    cell = entries.owners[mine] * len(wanted) + of_entry[mine]
    shape = (len(entries.samples), len(wanted))
    return np.bincount(cell, weights=weights[mine], minlength=shape[0] * shape[1]).reshape(shape)


def _strongest(entries: Entries, wanted: list[int]) -> list[Outcome]:
    name, unit = "max_presence", "activation units"
    strongest = np.full(entries.code.n_blocks, -1.0)
    np.maximum.at(strongest, entries.blocks, entries.presence)
    return [
        Outcome(name, float(strongest[g]), unit, note="largest ‖z‖")
        if strongest[g] >= 0
        else unknown(name, unit, "it never fires")
        for g in wanted
    ]


def _ratios(
    name: str,
    unit: str,
    per_sample: tuple[Float64[np.ndarray, "s q"], Float64[np.ndarray, "s _"]],
    note: str,
    entries: Entries,
    seed: int,
) -> list[Outcome]:
    top, bottom = (entries.by_group(part) for part in per_sample)
    lows, highs = ratio_intervals(top, bottom, seed=seed)
    totals = np.broadcast_to(bottom.sum(0), top.shape[1:])
    outcomes = []
    for above, below, low, high in zip(top.sum(0), totals, lows, highs, strict=True):
        if below > 0:
            ends = (float(low), float(high)) if np.isfinite([low, high]).all() else (None, None)
            outcomes.append(
                Outcome(name, float(above / below), unit, *ends, n=len(top), n_unit=entries.unit, note=note)
            )
        else:
            outcomes.append(unknown(name, unit, "it never fires"))
    return outcomes
