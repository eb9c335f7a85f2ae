"""Double descent in two regimes: up to the interpolation threshold a network memorises, beyond it features form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import mean_of
from monoseme.interaction.correlation import correlate

__all__ = ["Regime", "peak", "regimes"]


@dataclass(frozen=True)
class Regime:
    """The data sizes of one regime.

    Attributes
    ----------
    name
        ``"memorising"``: up to the threshold, that one included; ``"beyond"`` it.
    sizes
        Numbers of training rows.
    loss, ratio
        Means over these sizes, each size counting once, with Student's t interval over sizes.
    pearson, spearman
        Of the ratio with the loss over sizes.
    """

    name: str
    sizes: tuple[float, ...]
    loss: Outcome
    ratio: Outcome
    pearson: Outcome
    spearman: Outcome


def peak(size: Float64[np.ndarray, " n"], value: Float64[np.ndarray, " n"]) -> tuple[float, Float64[np.ndarray, " s"]]:
    """Return the size whose mean over seeds is highest, and its values; rows are trials, those not finite left out."""
    there = np.isfinite(value)
    if not there.any():
        raise refuse("value", "hold a finite number", "none", "Run the sweep first.")
    sizes = np.unique(size[there])
    top = sizes[int(np.argmax([value[there & (size == s)].mean() for s in sizes]))]
    return float(top), value[there & (size == top)]


def regimes(
    size: Float64[np.ndarray, " n"],
    loss: Float64[np.ndarray, " m"],
    ratio: Float64[np.ndarray, " k"],
    *,
    threshold: float | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[Regime, Regime]:
    """Loss against AOFE-ratio below and above the interpolation threshold.

    Parameters
    ----------
    size, loss, ratio
        Training rows, test loss, AOFE-ratio: a value a trial; trials of one size are seeds, and are averaged first.
    threshold
        Largest size that counts as memorising; by default the size whose mean loss is highest.
    draws, seed
        Resamples of sizes behind the intervals of the correlations, and their stream.
    """
    if not len(size) == len(loss) == len(ratio):
        raise refuse("ratio", f"have one value for every size, {len(size)}", len(ratio), "Give equal columns.")
    there = np.isfinite(loss) & np.isfinite(ratio)
    size, loss, ratio = size[there], loss[there], ratio[there]
    at = peak(size, loss)[0] if threshold is None else float(threshold)
    sizes = np.unique(size)
    means = np.array([[loss[size == s].mean(), ratio[size == s].mean()] for s in sizes]).reshape(-1, 2)
    made = []
    for name, mine in (("memorising", sizes <= at), ("beyond", sizes > at)):
        y, x = means[mine, 0], means[mine, 1]
        pair = correlate(x, y, draws=draws, seed=seed)
        made.append(Regime(name, tuple(map(float, sizes[mine])), _mean("loss", y), _mean("ratio", x), *pair))
    return made[0], made[1]


def _mean(name: str, values: np.ndarray) -> Outcome:
    if not len(values):
        return unknown(name, "1", "no size in this regime")
    m = mean_of(values)
    low, high = (m.low, m.high) if m.n > 1 else (None, None)
    return Outcome(name, m.value, "1", low, high, better="lower" if name == "loss" else None, n=m.n, n_unit="sizes")
