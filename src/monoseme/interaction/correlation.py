"""How a number goes with the loss over shapes: Pearson and Spearman, within budgets and pooled, with intervals.

Intervals are percentile bootstrap over points: pairs are resampled, within their stratum. Of few points those are too
narrow (6 pairs: 87 % of draws covered), so on Fisher's scale, z = artanh r, the distances of the resamples from the
value are widened by √(n / (n − 2 − strata centred)), as Fisher's own error is of normal pairs: then 92 to 96 % are, for
6 to 12 normal or heavy-tailed pairs (see the tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.seeds import rng
from monoseme.interaction.shape_table import ShapeTable

__all__ = ["Correlation", "correlate", "correlations"]

FEWEST = 4
KINDS = ("pearson", "spearman")


@dataclass(frozen=True)
class Correlation:
    """How one number goes with the loss.

    Attributes
    ----------
    number
        Its name.
    scope
        ``"budget"``: over the shapes of one; ``"pooled"``: over all shapes of all budgets; ``"within"``: over all,
        after the mean of each budget (for Spearman: of the ranks inside each) is taken off, so that what only follows
        the budget does not count.
    budget
        The budget, for the first scope.
    pearson, spearman
        −1 to 1.
    """

    number: str
    scope: Literal["budget", "pooled", "within"]
    budget: float | None
    pearson: Outcome
    spearman: Outcome


def correlate(
    x: Float64[np.ndarray, " n"],
    y: Float64[np.ndarray, " m"],
    strata: np.ndarray | None = None,
    *,
    centred: bool = False,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[Outcome, Outcome]:
    """Pearson and Spearman correlation of pairs, each with a 95 % interval.

    Parameters
    ----------
    x, y
        Pairs; one that is not finite is left out.
    strata
        A label a pair; pairs are resampled within theirs. All in one by default.
    centred
        Take off each stratum's mean first, or, for Spearman, the mean of the ranks inside it.
    draws, seed
        Resamples, and their stream. Those in which a column is constant have no correlation and are left out.

    Returns
    -------
    tuple of Outcome
        ``pearson`` and ``spearman``. Not known with fewer than four pairs or a constant column.
    """
    if len(x) != len(y) or (strata is not None and len(strata) != len(x)):
        raise refuse("y", f"have one value for every x, {len(x)}", len(y), "Give equal columns.")
    there = np.isfinite(x) & np.isfinite(y)
    x, y = x[there], y[there]
    labels = np.zeros(len(x)) if strata is None else strata[there]
    if len(x) < FEWEST:
        return tuple(
            unknown(name, "1", f"{len(x)} {plural(len(x), 'pairs')}; a correlation needs {FEWEST}") for name in KINDS
        )  # pyright: ignore[reportReturnType]
    stream, members = rng(seed, "correlate"), [np.flatnonzero(labels == label) for label in np.unique(labels)]
    drawn = [m[stream.integers(0, len(m), (draws, len(m)))] for m in members]
    parts = [(x[m][None], y[m][None], x[d], y[d]) for m, d in zip(members, drawn, strict=True)]
    dropped = int((~there).sum())
    return tuple(_outcome(name, parts, centred, dropped) for name in KINDS)  # pyright: ignore[reportReturnType]


def _outcome(name: str, parts: Sequence[tuple[np.ndarray, ...]], centred: bool, dropped: int) -> Outcome:
    first, second, third, fourth = (_prepared(name, [p[i] for p in parts], centred) for i in range(4))
    value, again = _pearson(first, second)[0], _pearson(third, fourth)
    n, again = first.shape[1], again[np.isfinite(again)]
    if not np.isfinite(value):
        return unknown(name, "1", "a column is constant")
    free = n - 2 - (len(parts) if centred else 1)
    low, high = _widened(float(value), again, n / free) if free > 1 else (None, None)
    note = "points resampled" if free > 1 else "too few points for an interval"
    note += f"; {dropped} without a value left out" if dropped else ""
    return Outcome(name, float(value), "1", low, high, n=n, n_unit="points", note=note)


def _widened(value: float, again: np.ndarray, factor: float) -> tuple[float, float]:
    """Percentiles of the resamples, their distances from the value widened on Fisher's scale."""
    whole = 1 - 1e-12  # a correlation of ±1 has no place on that scale
    centre = np.arctanh(np.clip(value, -whole, whole))
    ends = np.quantile(np.arctanh(np.clip(again, -whole, whole)), [0.025, 0.975])
    low, high = np.tanh(centre + np.sqrt(factor) * (ends - centre))
    return float(low), float(high)


def _prepared(name: str, columns: list[np.ndarray], centred: bool) -> Float64[np.ndarray, "b n"]:
    """Strata side by side; ranks for Spearman, over all or inside each; centred inside each when asked."""
    from scipy.stats import rankdata

    if not centred:
        whole = np.concatenate(columns, 1)
        return rankdata(whole, axis=1) if name == "spearman" else whole
    if name == "spearman":
        columns = [rankdata(column, axis=1) / column.shape[1] for column in columns]
    return np.concatenate([column - column.mean(1, keepdims=True) for column in columns], 1)


def _pearson(x: Float64[np.ndarray, "b n"], y: Float64[np.ndarray, "b n"]) -> Float64[np.ndarray, " b"]:
    """Correlation of each row; NaN where one is constant (up to rounding: centring leaves that of equal values)."""
    cx, cy = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    sizes = np.sqrt((cx * cx).sum(1)), np.sqrt((cy * cy).sum(1))
    tiny = [1e-12 * np.sqrt(x.shape[1]) * np.abs(z).max(1) for z in (x, y)]
    varies = (sizes[0] > tiny[0]) & (sizes[1] > tiny[1])
    value = np.divide((cx * cy).sum(1), sizes[0] * sizes[1], out=np.full(len(x), np.nan), where=varies)
    return np.clip(value, -1.0, 1.0)


def correlations(
    table: ShapeTable,
    numbers: Sequence[str],
    loss: str = "test_loss",
    *,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[Correlation, ...]:
    """Correlate the loss with each of `numbers` over shapes (means over their seeds).

    For every number: each budget, then, with several budgets, all of them pooled and within. ``"log10 NAME"`` takes the
    logarithm of the mean, as for energies that span decades.
    """
    means, found = table.over_seeds(), []
    target = means.column(loss)
    for number in numbers:
        values = means.column(number)
        for budget in means.budgets:
            mine = means.budget == budget
            pair = correlate(values[mine], target[mine], draws=draws, seed=seed)
            found.append(Correlation(number, "budget", budget, *pair))
        if len(means.budgets) > 1:
            pooled, within = (
                correlate(values, target, means.budget, centred=centred, draws=draws, seed=seed)
                for centred in (False, True)
            )
            found += [Correlation(number, "pooled", None, *pooled), Correlation(number, "within", None, *within)]
    return tuple(found)
