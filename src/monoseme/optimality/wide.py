"""The wide limit in closed form: no dictionary of any width goes below the Huber loss of ‖x - b‖.

Whatever the atoms and codes, E‖r‖² + 2λ E Σ z ≥ E h(‖x - b‖), row by row, with

    h(t) = t² for t ≤ λ,   2λt - λ² beyond                                                      (Huber)

because the cheapest way to write a vector is one atom along it. Equality: every row farther than λ from b fires exactly
one atom, its own direction. So the best bias is the Huber location of the rows (the geometric median when all are
farther than λ, the mean when none is), and the narrowest dictionary that reaches the limit has one atom for each
distinct ray from it (arXiv 2606.02385, wide limit; the closed form is ours). Blocks share the bound: what they bring is
fewer of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.rows import RowSource
from monoseme.core.seeds import rng
from monoseme.optimality.reading import as_bias, as_matrix, check_lam, check_number, check_size

__all__ = [
    "Cover",
    "Streamed",
    "WideLimit",
    "check_lam",
    "cover",
    "distinct_rays",
    "huber",
    "universal_bound",
    "wide_limit",
]

CHUNK = 8192
MOST_FLOATS = 1 << 27  # of the rows whose rays are counted


def huber(t: Float64[np.ndarray, " n"], lam: float) -> Float64[np.ndarray, " n"]:
    """h(t): t² up to λ, then 2λt - λ²."""
    return np.where(t <= lam, t * t, 2 * lam * t - lam * lam)


@dataclass(frozen=True, eq=False)
class WideLimit:
    """The least loss of any dictionary on these rows, and what reaches it.

    Attributes
    ----------
    bias
        b*, the Huber location, raw units.
    loss
        L∞ = min_b E h(‖x - b‖), units of ‖x‖². Lower is better; nothing is below.
    gap
        How much `loss` may be above the true minimum at most (a duality gap).
    rays
        Number of atoms of the narrowest dictionary that reaches it: distinct directions of rows farther than λ.
        ``None``, as `directions`, when these rows would take more than a gibibyte.
    directions
        (rays, d) those atoms.
    far, far_rows
        Share, and number, of rows farther than λ from b*. At 1 the bias is the geometric median, at 0 the mean.
    """

    bias: Float64[np.ndarray, " d"]
    loss: float
    gap: float
    rays: int | None
    directions: Float64[np.ndarray, "rays d"] | None
    far: float
    far_rows: int

    @property
    def reading(self) -> str:
        """What is to be said of `rays`: when no two rows share a ray, the width is only a count of rows."""
        if not self.rays or self.rays < self.far_rows:
            return ""
        return ": one atom a row, as no two of the rows farther than λ share a ray"

    @property
    def is_median(self) -> bool:
        """Whether b* is the geometric median."""
        return self.far == 1.0

    @property
    def is_mean(self) -> bool:
        """Whether b* is the mean."""
        return self.far == 0.0


@runtime_checkable
class Streamed(Protocol):
    """Rows that are read anew for every pass."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def parts(self) -> Iterator[Float64[np.ndarray, "n d"]]:
        """All rows once, some at a time."""
        ...


Rows = np.ndarray | Tensor | RowSource | Streamed


def universal_bound(x: Rows, bias: Float64[np.ndarray, " d"], lam: float) -> float:
    """E h(‖x - b‖): a lower bound of the loss of every dictionary with this bias, units of ‖x‖²."""
    lam, whole = check_lam(lam), _rows(x)
    total = n = 0.0
    for part in _parts(whole):
        total += float(huber(np.linalg.norm(part - bias, axis=1), lam).sum())
        n += len(part)
    return total / n


def wide_limit(x: Rows, lam: float, tol: float = 1e-9, most: int = 10_000, ray_cosine: float = 1 - 1e-9) -> WideLimit:
    """Solve the infinitely wide problem on these rows.

    Parameters
    ----------
    x
        (n, d) rows, or a `RowSource`; float64 sums. One pass over the rows a step.
    lam
        λ > 0, units of x.
    tol
        Stop when the duality gap is below tol · loss.
    most
        Most passes. When they end first, `gap` says how far it is.
    ray_cosine
        Directions count as one ray above this cosine.

    Notes
    -----
    Minimised by reweighted means, w_i = min(1, λ/‖x_i - b‖): smooth and monotone, with no trouble at data points. The
    dual point u_i = w_i (x_i - b), shifted to sum to zero and shrunk into ‖u_i‖ ≤ λ, bounds the minimum from below by
    E[2⟨u, x - b⟩ - ‖u‖²].
    """
    lam = check_lam(lam)
    if isinstance(most, bool) or not isinstance(most, Integral) or most < 1:
        fix = "It is the largest number of passes over the rows."
        raise refuse("most", "be a whole number, at least 1", repr(most), fix)
    tol = check_number(tol, "tol", 0, math.inf, "The gap falls below tol times the loss; 1e-9 is the default.")
    ray_cosine = check_number(ray_cosine, "ray_cosine", 0, 1, "Directions above it count as one ray.")
    if ray_cosine == 0:
        raise refuse("ray_cosine", "be above 0", 0, "Directions above it count as one ray.")
    whole = _rows(x)
    following = np.sum([part.sum(0) for part in _parts(whole)], 0) / len(whole)
    bias, loss, gap, far = following, math.inf, math.inf, 0.0
    for _ in range(most):
        bias = following  # loss and gap below are those at this bias, also where the passes run out
        loss, gap, following, far = _step(whole, bias, lam)
        if gap <= tol * loss + 1e-300:
            break
    many = round(far * len(whole))
    if len(whole) * len(bias) > MOST_FLOATS:
        return WideLimit(bias, loss, max(gap, 0.0), None, None, far, many)
    directions = distinct_rays(whole, bias, lam, ray_cosine)
    return WideLimit(bias, loss, max(gap, 0.0), len(directions), directions, far, many)


def _step(
    x: Rows, bias: Float64[np.ndarray, " d"], lam: float
) -> tuple[float, float, Float64[np.ndarray, " d"], float]:
    """Loss at `bias`, its duality gap, the reweighted mean, and the share of far rows."""
    n = loss = weight = far = 0.0
    moved, dual_sum = np.zeros_like(bias), np.zeros_like(bias)
    for part in _parts(x):
        t = np.linalg.norm(part - bias, axis=1)
        w = np.minimum(1.0, lam / np.maximum(t, lam))
        loss, n, weight, far = loss + huber(t, lam).sum(), n + len(part), weight + w.sum(), far + (t > lam).sum()
        moved += w @ part
        dual_sum += w @ (part - bias)
    mean = dual_sum / n
    shrink = lam / (lam + float(np.linalg.norm(mean)))  # keeps every ‖u‖ ≤ λ after the shift
    dual = 0.0
    for part in _parts(x):
        centred = part - bias
        w = np.minimum(1.0, lam / np.maximum(np.linalg.norm(centred, axis=1), lam))
        u = shrink * (w[:, None] * centred - mean)
        dual += float((2 * (u * centred).sum(1) - np.square(u).sum(1)).sum())
    return float(loss / n), float((loss - dual) / n), moved / weight, float(far / n)


def distinct_rays(
    x: Rows, bias: Float64[np.ndarray, " d"], lam: float, cosine: float = 1 - 1e-9
) -> Float64[np.ndarray, "rays d"]:
    """Directions (x_i - b)/‖x_i - b‖ of the rows farther than λ, one of each cluster.

    Rows are sorted along one random direction: two rays at that cosine lie within an angle of √(2 (1 - cosine)) there
    too, so each row meets only its neighbours. The far rows are held in memory.
    """
    held: list[Float64[np.ndarray, "n d"]] = []
    for part in _parts(_rows(x)):
        t = np.linalg.norm(part - bias, axis=1)
        # a row at exactly λ fires nothing; rounding must not make it a ray
        far = t > lam * (1 + 1e-9)
        held.append((part[far] - bias) / t[far, None])
    directions = np.concatenate(held)
    along = rng(0, "rays").standard_normal(len(bias))
    place = directions @ (along / np.linalg.norm(along))
    order, window = np.argsort(place, kind="stable"), math.sqrt(2 * (1 - cosine)) + 1e-12
    leaders: list[int] = []
    first = 0  # leaders before it are out of reach
    for i in order.tolist():
        while first < len(leaders) and place[leaders[first]] < place[i] - window:
            first += 1
        near = leaders[first:]
        if not near or float((directions[near] @ directions[i]).max()) <= cosine:
            leaders.append(i)
    return directions[np.sort(np.array(leaders, np.int64))]


@dataclass(frozen=True, eq=False)
class Cover:
    """Few atoms that come close to the wide limit: every row's loss is at most `excess` above it.

    Attributes
    ----------
    atoms
        (K, d), directions of rows.
    assigned
        The atom of each row; -1 where the row fires none.
    loss
        E of the one-atom-a-row code with these atoms.
    """

    atoms: Float64[np.ndarray, "K d"]
    assigned: np.ndarray
    loss: float


def cover(x: np.ndarray | Tensor, bias: Float64[np.ndarray, " d"], lam: float, excess: float) -> Cover:
    """Greedy set cover: with one atom at angle φ a row at distance t loses (t - λ)² - (t cos φ - λ)₊² over the limit.

    So a row is covered to `excess` ε where cos φ ≥ (λ + √((t - λ)² - ε)) / t, and needs nothing when (t - λ)² ≤ ε.
    At most H_n times as many atoms as the best choice among the rows' own directions. Memory n² for the far rows.
    """
    lam, rows = check_lam(lam), as_matrix(x, "x")
    bias = as_bias(bias, rows.shape[1])
    excess = check_number(excess, "excess", 0, math.inf, "It is what a row may lose, units of ‖x‖².")
    if excess == 0:
        raise refuse("excess", "be above 0", 0, "It is what a row may lose, units of ‖x‖².")
    t = np.linalg.norm(rows - bias, axis=1)
    need = np.flatnonzero((t > lam) & (np.square(t - lam) > excess))
    unit = (rows[need] - bias) / t[need, None]
    least = (lam + np.sqrt(np.square(t[need] - lam) - excess)) / t[need]
    covers = unit @ unit.T >= np.minimum(least, 1 - 1e-12)[:, None]  # row i by candidate c
    chosen: list[int] = []
    open_ = np.ones(len(need), bool)
    while open_.any():
        best = int(covers[open_].sum(0).argmax())
        chosen.append(best)
        open_ &= ~covers[:, best]
    atoms = unit[chosen] if chosen else np.zeros((0, rows.shape[1]))
    reach = (rows - bias) @ atoms.T if len(atoms) else np.full((len(rows), 1), -np.inf)
    best = reach.max(1)
    assigned = np.where(best > lam, reach.argmax(1), -1)
    return Cover(atoms, assigned, float((t * t - np.square(np.maximum(best - lam, 0.0))).mean()))


def _rows(x: Rows) -> np.ndarray | RowSource | Streamed:
    return x if isinstance(x, (RowSource, Streamed)) else as_matrix(x, "x")


def _parts(x: Rows) -> Iterator[Float64[np.ndarray, "n d"]]:
    if isinstance(x, np.ndarray):
        for start in range(0, len(x), CHUNK):
            yield x[start : start + CHUNK]
        return
    if isinstance(x, Streamed):
        yield from x.parts()
        return
    assert isinstance(x, RowSource)
    done = 0
    for batch in x.in_order(CHUNK):
        part = batch.x.detach().cpu().double().numpy()
        finite = np.isfinite(part).all(1)
        if not finite.all():
            got = f"NaN or infinity in row {done + int(np.argmin(finite))}"
            raise refuse("x", "be finite", got, "Drop it, or find what made it.")
        check_size(part, "x", done)
        done += len(part)
        yield part
