"""One dense variable: when one nonnegative atom is enough, and when the optimum is an antipodal pair.

For scalar rows x the two candidates are

    pair      min_b E h(|x - b|)                  h(t) = t² up to λ, then 2λt - λ²
    single +  min_b E h⁺(x - b)                   h⁺(t) = t² for all t ≤ λ (negative too), then 2λt - λ²

A single + atom is globally optimal, at any width, iff the soft active fraction is at most a half,

    E[min((x - x_min) / 2λ, 1)] ≤ 1/2                                                (ours; generalises the 50 % rule)

and single - iff the same holds of x_max - x; otherwise a pair is strictly better. In words: of the share p of rows
above the lowest value, at most p* = λ / E[min(x - x_min, 2λ) | x > x_min], which is 1/2 where all of them are 2λ above
it and more where they are not. With the bias fixed below all values h and h⁺ are the same, so a nonnegative variable
never needs a pair: the learned bias causes it (arXiv 2606.02385, rank-1 theorem).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.optimality.reading import check_size
from monoseme.optimality.wide import check_lam, huber

__all__ = ["RankOne", "rank_one"]

Verdict = Literal["single +", "single -", "pair"]
_VERDICTS: tuple[Verdict, ...] = ("single +", "single -", "pair")


@dataclass(frozen=True)
class RankOne:
    """The optimal nonnegative code of one variable.

    Attributes
    ----------
    verdict
        ``"single +"``, ``"single -"`` or ``"pair"``.
    soft_active
        E[min((x - x_min)/2λ, 1)], the soft active fraction above the lowest value; a pair needs more than 1/2 of this
        and of `soft_active_down`.
    soft_active_down
        The same of x_max - x.
    loss
        Of the optimum, units of x². `loss_up`, `loss_down`, `loss_pair`: of the three candidates, each with its own
        best bias.
    bias
        Of the optimum. `bias_up`, `bias_down`, `bias_pair`: of the three candidates.
    active
        Share of rows on which some atom is active at the optimum.
    threshold
        p*, the share of rows above the lowest value up to which single + is optimal, for values distributed as these
        are when above it. At least 1/2; from 1 on it is optimal at any share. Infinite when all values are equal.
    """

    verdict: Verdict
    soft_active: float
    soft_active_down: float
    loss: float
    loss_up: float
    loss_down: float
    loss_pair: float
    bias: float
    active: float
    bias_up: float
    bias_down: float
    bias_pair: float
    threshold: float


def rank_one(values: np.ndarray | Tensor, lam: float) -> RankOne:
    """Decide between one atom and an antipodal pair for the values of one variable, exactly.

    Examples
    --------
    >>> rank_one(np.array([0.0, 0.0, 0.0, 5.0, 6.0]), lam=0.1).verdict
    'single +'
    >>> rank_one(np.array([0.0, 4.0, 5.0, 6.0, 7.0]), lam=0.1).verdict
    'pair'
    """
    lam, x = check_lam(lam), _values(values)
    above = np.minimum((x - x.min()) / (2 * lam), 1)
    up, down = float(above.mean()), float(np.minimum((x.max() - x) / (2 * lam), 1).mean())
    bias_up, loss_up = _single(x, lam)
    bias_down, loss_down = _single(-x, lam)
    bias_pair = _root(lambda b: float(np.clip(x - b, -lam, lam).mean()), x, lam)
    losses = (loss_up, loss_down, float(huber(np.abs(x - bias_pair), lam).mean()))
    biases = (bias_up, -bias_down, bias_pair)
    which = 0 if up <= 0.5 else 1 if down <= 0.5 else 2
    bias, on = biases[which], above > 0
    reach = (x - bias, bias - x, np.abs(x - bias))[which]
    return RankOne(
        _VERDICTS[which],
        up,
        down,
        losses[which],
        *losses,
        bias,
        float((reach > lam).mean()),
        *biases,
        float(0.5 / above[on].mean()) if on.any() else np.inf,
    )


def _single(x: Float64[np.ndarray, " n"], lam: float) -> tuple[float, float]:
    """Bias and loss of one atom +1: at the optimum E[min(x - b, λ)] = 0."""
    bias = _root(lambda b: float(np.minimum(x - b, lam).mean()), x, lam)
    t = x - bias
    return bias, float(huber(t, lam).mean())


def _root(slope: Callable[[float], float], x: Float64[np.ndarray, " n"], lam: float) -> float:
    """Zero of a falling, piecewise linear function with corners at x_i and x_i ± λ: bisect the corners, then solve."""
    corners = np.unique(np.concatenate([x - lam, x, x + lam]))
    low, high = 0, len(corners) - 1  # slope(low) ≥ 0 ≥ slope(high)
    if slope(corners[high]) > 0 or slope(corners[low]) < 0:
        raise AssertionError("the derivative must change its sign between the outer corners")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(corners[middle]) >= 0 else (low, middle)
    a, b = float(corners[low]), float(corners[high])
    at, bt = slope(a), slope(b)
    return a if at == bt else a + (b - a) * at / (at - bt)


def _values(values: np.ndarray | Tensor) -> Float64[np.ndarray, " n"]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise refuse("values", "be floating-point numbers", got, "Convert them with .astype('float64').")
    if array.ndim != 1 or array.size == 0:
        raise refuse("values", "be one column of at least one number", array.shape, "Take one variable.")
    array = np.asarray(array, np.float64)
    if not np.isfinite(array).all():
        raise refuse("values", "be finite", "NaN or infinity", "Drop those rows.")
    check_size(array, "values")
    return array
