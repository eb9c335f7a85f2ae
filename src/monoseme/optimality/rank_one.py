"""One dense variable: when one nonnegative atom is enough, and when the optimum is an antipodal pair.

For scalar rows x the two candidates are

    pair      min_b E h(|x - b|)                  h(t) = t² up to λ, then 2λt - λ²
    single +  min_b E h⁺(x - b)                   h⁺(t) = t² for all t ≤ λ (negative too), then 2λt - λ²

A single + atom is globally optimal, at any width, iff the soft active fraction is at most a half,

    E[min((x - x_min) / 2λ, 1)] ≤ 1/2                                                (ours; generalises the 50 % rule)

and single - iff the same holds of x_max - x; otherwise a pair is strictly better. Without a learned bias a nonnegative
variable never needs one: the bias causes the pair (arXiv 2606.02385, rank-1 theorem).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.optimality.wide import check_lam, huber

__all__ = ["RankOne", "rank_one"]


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
        Of the optimum.
    active
        Share of rows on which some atom is active at the optimum.
    """

    verdict: Literal["single +", "single -", "pair"]
    soft_active: float
    soft_active_down: float
    loss: float
    loss_up: float
    loss_down: float
    loss_pair: float
    bias: float
    active: float


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
    up = float(np.minimum((x - x.min()) / (2 * lam), 1).mean())
    down = float(np.minimum((x.max() - x) / (2 * lam), 1).mean())
    bias_up, loss_up = _single(x, lam)
    bias_down, loss_down = _single(-x, lam)
    bias_pair = _root(lambda b: float(np.clip(x - b, -lam, lam).mean()), x, lam)
    loss_pair = float(huber(np.abs(x - bias_pair), lam).mean())
    if up <= 0.5:
        best, bias, loss = "single +", bias_up, loss_up
    elif down <= 0.5:
        best, bias, loss = "single -", -bias_down, loss_down
    else:
        best, bias, loss = "pair", bias_pair, loss_pair
    reach = {"single +": x - bias, "single -": bias - x, "pair": np.abs(x - bias)}[best]
    return RankOne(best, up, down, loss, loss_up, loss_down, loss_pair, float(bias), float((reach > lam).mean()))  # pyright: ignore[reportArgumentType]


def _single(x: Float64[np.ndarray, " n"], lam: float) -> tuple[float, float]:
    """Bias and loss of one atom +1: at the optimum E[min(x - b, λ)] = 0."""
    bias = _root(lambda b: float(np.minimum(x - b, lam).mean()), x, lam)
    t = x - bias
    return bias, float(np.where(t <= lam, t * t, 2 * lam * t - lam * lam).mean())


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
    return array
