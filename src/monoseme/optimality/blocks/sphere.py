"""One block against many directions on a circle or a sphere, in closed form: what fragmenting a manifold costs (ours).

Rows lie on a sphere of radius t > λ about the bias, uniformly. One block on its span has loss h(t) = 2λt - λ². Scalar
codes pay more, always; the price w of a block's norm at which both are equal says when a block is worth its size.
"""

from __future__ import annotations

import math

import numpy as np

from monoseme.core.errors import refuse

__all__ = ["circle_gain", "circle_loss", "tie_price", "tie_table"]

NODES = 200


def circle_loss(t: float, lam: float, atoms: int, signed: bool = True) -> float:
    """Loss of K equally spaced unit atoms on a circle of radius t, uniform in angle, at the best codes.

    t² - E dist(x, λ·polygon)²; the polygon with corners φ apart (φ = π/K signed, 2π/K nonnegative) circumscribes the
    unit circle. Needs λ / cos(φ/2) < t: every corner inside the circle.
    """
    phi = math.pi / atoms if signed else 2 * math.pi / atoms
    if atoms < (2 if signed else 3):
        raise refuse("atoms", "span the plane: at least 2 signed or 3 nonnegative", atoms, "Raise it.")
    if not 0 < lam / math.cos(phi / 2) < t:
        raise refuse("t", f"exceed lam / cos(φ/2) = {lam / math.cos(phi / 2):.4g}", t, "Lower lam, or raise atoms.")
    corner = lam / math.cos(phi / 2)
    turn = min(
        phi / 2, math.asin(min(1.0, lam * math.tan(phi / 2) / t))
    )  # nearest to an edge before, to a corner beyond
    edge = t * t * (turn / 2 + math.sin(2 * turn) / 4) - 2 * t * lam * math.sin(turn) + lam * lam * turn
    vertex = (t * t + corner**2) * (phi / 2 - turn) - 2 * t * corner * math.sin(phi / 2 - turn)
    return t * t - (edge + vertex) / (phi / 2)


def circle_gain(t: float, lam: float, atoms: int, signed: bool = True, density: float = 1.0) -> float:
    """Loss removed by one block of two dimensions in place of K atoms on a circle: positive, about t λ p φ²/6."""
    return density * (circle_loss(t, lam, atoms, signed) - (2 * lam * t - lam * lam))


def tie_price(size: int, ratio: float) -> float:
    """Price w of 2λw‖z‖ at which one block ties with as many signed atoms as it has dimensions, `size`; `ratio` = λ/t.

    Solves 2λwt - λ²w² = b E h(|t u₁|). Below it the block wins. As λ/t → 0 it is b Γ(b/2) / (√π Γ((b+1)/2)): 4/π, 3/2,
    1.698 for b = 2, 3, 4; the textbook √b lies above it for b = 2 and 3.
    """
    if size < 2:
        raise refuse("size", "be at least 2", size, "A block of one direction is an atom.")
    if not 0 <= ratio < 1:
        raise refuse("ratio", "lie in [0, 1)", ratio, "It is λ ÷ the radius.")
    if ratio == 0:
        return size * math.gamma(size / 2) / (math.sqrt(math.pi) * math.gamma((size + 1) / 2))
    node, weight = np.polynomial.legendre.leggauss(NODES)
    kink = math.acos(ratio)  # t cos(angle) = λ

    def integral(low: float, high: float, loss: np.ndarray | None = None) -> float:
        angle = (high - low) / 2 * node + (high + low) / 2
        u, density = np.cos(angle), np.sin(angle) ** (size - 2)
        value = np.where(u <= ratio, u * u, 2 * ratio * u - ratio * ratio) if loss is None else loss
        return float((weight * density * value).sum() * (high - low) / 2)

    ones = np.ones(NODES)
    mean = (integral(0, kink) + integral(kink, math.pi / 2)) / integral(0, math.pi / 2, ones)
    return (1 - math.sqrt(1 - size * mean)) / ratio


def tie_table(
    sizes: tuple[int, ...] = (2, 3), ratios: tuple[float, ...] = (0.01, 0.1, 0.3, 0.5)
) -> dict[int, dict[float, float]]:
    """`tie_price` by size and λ/t."""
    return {size: {ratio: tie_price(size, ratio) for ratio in ratios} for size in sizes}
