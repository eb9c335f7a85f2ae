"""Mergeable statistics: batches, shards and ranks add up in any order. Everything is accumulated in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from monoseme.core.seeds import rng

__all__ = ["Mean", "Moments", "mean_of", "merged", "moments", "ratio_interval", "ratio_intervals", "wilson"]

T = TypeVar("T")


@dataclass(frozen=True)
class Moments:
    """Count, mean, and sum of squares about the mean, per dimension (Chan, Golub & LeVeque 1979).

    Centred sums, not raw ones: data with a mean 1,000 times its spread keeps its digits.
    """

    count: int
    mean: Float64[Tensor, " d"]
    centred: Float64[Tensor, " d"]

    def merge(self, other: Moments) -> Moments:
        """Statistics of both samples together. Associative and commutative up to rounding."""
        if self.count == 0:
            return other
        if other.count == 0:
            return self
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        centred = self.centred + other.centred + delta.square() * (self.count * other.count / count)
        return Moments(count, mean, centred)

    @property
    def mean_square_norm(self) -> float:
        """E‖x − mean‖², the total variance (population form, divided by the count)."""
        return float(self.centred.sum()) / max(self.count, 1)


def merged(a: T, b: T, largest: Sequence[str] = ()) -> T:
    """Merge two dataclasses of sums, field by field: added, or the larger one of the fields in `largest`."""
    values = {f.name: (getattr(a, f.name), getattr(b, f.name)) for f in fields(a)}  # pyright: ignore[reportArgumentType]
    return type(a)(**{name: max(u, v) if name in largest else u + v for name, (u, v) in values.items()})


def moments(x: Float[Tensor, "n d"]) -> Moments:
    """Moments of a batch; ``Moments`` of an empty batch have count 0 and are neutral under `merge`.

    Examples
    --------
    >>> m = moments(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> m.mean.tolist(), m.centred.tolist()
    ([1.0, 1.0], [2.0, 0.0])
    """
    wide = x.detach().to("cpu", torch.float64)
    if wide.shape[0] == 0:
        zero = torch.zeros(wide.shape[1], dtype=torch.float64)
        return Moments(0, zero, zero.clone())
    mean = wide.mean(0)
    return Moments(wide.shape[0], mean, (wide - mean).square().sum(0))


@dataclass(frozen=True)
class Mean:
    """A mean of n independent values; error and interval are NaN where n < 2, because one value tells no spread."""

    value: float
    standard_error: float
    low: float
    high: float
    n: int


def mean_of(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Mean:
    """Mean of independent, about normal values, such as those of training seeds, with Student's t interval.

    Examples
    --------
    >>> m = mean_of([1.0, 2.0, 3.0])
    >>> m.value, round(m.standard_error, 3), round(m.low, 3), round(m.high, 3)
    (2.0, 0.577, -0.484, 4.484)
    """
    from scipy.stats import t

    given = np.asarray(values, dtype=np.float64)
    n = len(given)
    if n < 2:
        return Mean(float(given[0]) if n else float("nan"), float("nan"), float("nan"), float("nan"), n)
    centre, error = float(given.mean()), float(given.std(ddof=1) / np.sqrt(n))
    reach = float(t.ppf(0.5 + confidence / 2, n - 1)) * error
    return Mean(centre, error, centre - reach, centre + reach, n)


MOST_UNITS = 2000  # resampled units; the width of an interval from that many is good to about 2 %


def ratio_interval(
    numerator: Float[Tensor, " s"] | np.ndarray,
    denominator: Float[Tensor, " s"] | np.ndarray,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Interval of Σ numerator ÷ Σ denominator by resampling whole samples (pictures, documents).

    Rows of one sample are not independent, so the sample is the unit: percentile bootstrap over samples. With fewer
    than two samples, or a zero total, there is no interval and ``(nan, nan)`` is returned.
    """
    num, den = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    low, high = ratio_intervals(num[:, None], den[:, None], confidence, draws, seed)
    return float(low[0]), float(high[0])


def ratio_intervals(
    numerators: Float64[np.ndarray, "s q"],
    denominators: Float64[np.ndarray, "s q"] | Float64[np.ndarray, "s 1"],
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " q"]]:
    """`ratio_interval` of q quantities at once, all over the same resamples: one matrix product.

    Beyond 2,000 samples, neighbours are summed to 2,000 units first: sums of independent samples are independent too,
    and the cost stops growing.
    """
    if len(numerators) < 2:
        nothing = np.full(numerators.shape[1], np.nan)
        return nothing, nothing.copy()
    units = min(len(numerators), MOST_UNITS)
    starts = np.arange(units) * len(numerators) // units
    num, den = np.add.reduceat(numerators, starts), np.add.reduceat(denominators, starts)
    stream = rng(seed, "ratio_interval")
    weights = np.stack([np.bincount(stream.integers(0, units, units), minlength=units) for _ in range(draws)])
    weights = weights.astype(np.float64)
    top, total = weights @ num, np.broadcast_to(weights @ den, (draws, num.shape[1]))
    ratios = np.divide(top, total, out=np.full(top.shape, np.nan), where=total != 0)
    low, high = np.full(top.shape[1], np.nan), np.full(top.shape[1], np.nan)
    some = np.isfinite(ratios).any(0)  # a quantity that never occurs has no ratio
    tail = (1 - confidence) / 2
    if some.any():
        low[some], high[some] = np.nanquantile(ratios[:, some], [tail, 1 - tail], axis=0)
    return low, high


def wilson(successes: int | Int[Tensor, ""], trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share.

    Examples
    --------
    >>> low, high = wilson(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    from scipy.stats import binomtest

    if trials == 0:
        return 0.0, 1.0
    interval = binomtest(int(successes), trials).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)
