"""How much of the rows a code keeps, and how much of the dictionary it uses: FVU, L0, dead share, densities.

``tally`` makes sufficient statistics of a batch, ``merge`` adds them in any order, ``fidelity`` turns them into
numbers. Everything is summed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.stats import Moments, moments, ratio_interval, wilson

__all__ = ["Tally", "fidelity", "merge", "tally"]


@dataclass(frozen=True, eq=False)
class Tally:
    """Sufficient statistics of some rows and their reconstructions.

    Attributes
    ----------
    moments
        Of the rows; the exact denominator of the FVU.
    firings
        (G,) rows on which each block is active.
    block_size
        b.
    sample
        (s,) the samples the rows come from, ascending.
    rows, error, square, blocks
        (s,) for each of them: number of rows, Σ‖x − x̂‖², Σ‖x − centre‖², active blocks. Only the intervals need these.
    """

    moments: Moments
    firings: Int64[np.ndarray, " G"]
    block_size: int
    sample: Int64[np.ndarray, " s"]
    rows: Float64[np.ndarray, " s"]
    error: Float64[np.ndarray, " s"]
    square: Float64[np.ndarray, " s"]
    blocks: Float64[np.ndarray, " s"]


def tally(
    x: Float[Tensor, "n d"],
    x_hat: Float[Tensor, "n d"],
    code: Code,
    sample: Int[Tensor, " n"],
    centre: Float[Tensor, " d"],
) -> Tally:
    """Statistics of one batch.

    Parameters
    ----------
    x, x_hat
        Rows and reconstructions, in raw activation units.
    code
        The codes of the same rows.
    sample
        The sample (picture, document) of every row.
    centre
        About which each sample's squares are taken: the mean of all rows, or near it. It moves the intervals only.
    """
    wide, centre = x.detach().double().cpu(), centre.double().cpu()
    found, of_row = np.unique(sample.cpu().numpy(), return_inverse=True)

    def by_sample(values: Tensor) -> Float64[np.ndarray, " s"]:
        return np.bincount(of_row, weights=values.double().cpu().numpy(), minlength=len(found))

    return Tally(
        moments(wide),
        code.counts().cpu().numpy(),
        code.block_size,
        found,
        by_sample(torch.ones(len(wide))),
        by_sample((wide - x_hat.detach().double().cpu()).square().sum(1)),
        by_sample((wide - centre).square().sum(1)),
        by_sample(code.l0),
    )


def merge(tallies: Sequence[Tally]) -> Tally:
    """Statistics of all rows together, in whatever batches and order they came."""
    found, of_row = np.unique(np.concatenate([t.sample for t in tallies]), return_inverse=True)

    def add(name: str) -> Float64[np.ndarray, " s"]:
        values = np.concatenate([getattr(t, name) for t in tallies])
        return np.bincount(of_row, weights=values, minlength=len(found))

    return Tally(
        reduce(Moments.merge, (t.moments for t in tallies)),
        np.sum([t.firings for t in tallies], axis=0),
        tallies[0].block_size,
        found,
        add("rows"),
        add("error"),
        add("square"),
        add("blocks"),
    )


def fidelity(stats: Tally, samples: str = "samples", seed: int = 0) -> dict[str, Outcome]:
    """Compute the numbers of a tally.

    Returns
    -------
    dict
        ``fvu``
            Σ‖x − x̂‖² ÷ Σ‖x − x̄‖², x̄ the per-dimension mean of these rows. 0 perfect, 1 like predicting the mean; a
            constant offset counts; lower is better; the same in any unit of x. Unknown when the rows do not vary.
        ``l0``
            Active blocks a row, mean.
        ``active_dims``
            Active dimensions a row, A = b · L0: what makes codes of different b comparable.
        ``dead_share``
            Share of the blocks that fire on none of these rows; lower is better.

        The intervals of the first three come from resampling samples, that of the last is Wilson's over the blocks.
    """
    n = len(stats.sample)
    over = f"{stats.moments.count} rows" + (f" of {n} {plural(n, samples)}" if samples != "rows" else "")
    b, l0 = stats.block_size, float(stats.blocks.sum()) / stats.moments.count
    low, high = _interval(stats.blocks, stats.rows, seed)
    dims_low, dims_high = (None, None) if low is None or high is None else (b * low, b * high)
    dims_note = f"L0 times the block size, {b}"
    return {
        "fvu": _fvu(stats, over, samples, seed),
        "l0": Outcome("l0", l0, "blocks/row", low, high, n=n, n_unit=samples, note=f"mean over {over}"),
        "active_dims": Outcome(
            "active_dims", b * l0, "dims/row", dims_low, dims_high, n=n, n_unit=samples, note=dims_note
        ),
        "dead_share": _dead(stats.firings, over),
    }


def _dead(firings: Int64[np.ndarray, " G"], over: str) -> Outcome:
    dead, blocks = int((firings == 0).sum()), len(firings)
    low, high = wilson(dead, blocks)
    note = f"{dead} of {blocks} blocks fire on none of {over}"
    return Outcome(
        "dead_share", dead / blocks, "share", low, high, better="lower", n=blocks, n_unit="blocks", note=note
    )


def _fvu(stats: Tally, over: str, samples: str, seed: int) -> Outcome:
    total = float(stats.moments.centred.sum())
    # what rounding leaves of a constant: a few units in the last place of the mean, squared
    rounding = stats.moments.count * float((64 * np.finfo(np.float64).eps * stats.moments.mean).square().sum())
    if total <= rounding:
        return unknown("fvu", "1", f"undefined: {over} do not vary, so there is nothing to explain")
    low, high = _interval(stats.error, stats.square, seed)
    value = float(stats.error.sum()) / total
    return Outcome("fvu", value, "1", low, high, better="lower", n=len(stats.sample), n_unit=samples, note=over)


def _interval(
    numerator: Float64[np.ndarray, " s"], denominator: Float64[np.ndarray, " s"], seed: int
) -> tuple[float | None, float | None]:
    low, high = ratio_interval(numerator, denominator, seed=seed)
    return (low, high) if np.isfinite([low, high]).all() else (None, None)
