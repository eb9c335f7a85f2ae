"""How far apart directions can be at best (Welch 1974), and how far those of a network are: feature interference.

N unit vectors in d dimensions with N > d cannot all be orthogonal. For every order k ≥ 1

    max_{i≠j} |⟨u_i, u_j⟩|^{2k} ≥ (N / C(d + k - 1, k) - 1) ÷ (N - 1)
    Σ_{ij} ⟨u_i, u_j⟩^{2k} ≥ N² / C(d + k - 1, k)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["Interference", "interference", "sum_bound", "welch_bound"]


def welch_bound(n: int, d: int, order: int | None = None) -> float:
    """Least possible largest |cosine| among n directions in d dimensions: of one order, or the best of all up to 50.

    0 where it says nothing: n ≤ d, or an order too high for n.
    """
    _check(n, d)
    if order is not None and order < 1:
        raise refuse("order", "be at least 1, or None for the best", order, "1 is Welch's best known.")
    if n <= d or n < 2:
        return 0.0
    orders = range(1, 51) if order is None else (order,)
    return max(max((n / math.comb(d + k - 1, k) - 1) / (n - 1), 0.0) ** (1 / (2 * k)) for k in orders)


def sum_bound(n: int, d: int, order: int = 1) -> float:
    """Least possible Σ_{ij} ⟨u_i, u_j⟩^{2k}, the diagonal counted; reached by tight frames at order 1. At least n."""
    _check(n, d)
    if order < 1:
        raise refuse("order", "be at least 1", order, "1 is Welch's best known.")
    return max(n * n / math.comb(d + order - 1, order), float(n))


@dataclass(frozen=True)
class Interference:
    """Of N directions in d dimensions; lower is less interference.

    Attributes
    ----------
    n, d
        Directions that are not zero, and the dimension.
    largest, mean
        |cosine| of different ones.
    largest_bound
        What no arrangement can be below (`welch_bound`).
    mean_square, mean_square_bound
        Of cosines of different ones, and what no arrangement can be below.
    """

    n: int
    d: int
    largest: float
    mean: float
    largest_bound: float
    mean_square: float
    mean_square_bound: float


def interference(directions: Float[Tensor, "n d"]) -> Interference:
    """Interference of weight directions, or of maps (a row each). Zero rows are left out; two others are needed."""
    rows = directions.detach().double()
    if not bool(torch.isfinite(rows).all()):
        raise refuse("directions", "be finite", "NaN or infinity", "Look at the network.")
    rows = rows[rows.norm(dim=1) > 0]
    n, d = rows.shape
    if n < 2:
        raise refuse("directions", "hold two that are not zero", n, "Is the layer dead?")
    unit = rows / rows.norm(dim=1, keepdim=True)
    cosines = (unit @ unit.T)[~torch.eye(n, dtype=torch.bool)]
    square, pairs = float(cosines.square().mean()), n * (n - 1)
    return Interference(
        *(n, d, float(cosines.abs().max()), float(cosines.abs().mean()), welch_bound(n, d), square),
        (sum_bound(n, d) - n) / pairs,
    )


def _check(n: int, d: int) -> None:
    if n < 1 or d < 1:
        raise refuse("n and d", "be at least 1", (n, d), "They count directions and dimensions.")
