"""Inside or outside, decided by Newton's method: the weights of largest entropy.

If any weights on the rows of I_j reach g, the most even ones that do are an exponential tilt of equal weights,

    a_i ∝ exp⟨β, y_i⟩,        β minimises the convex  φ(β) = log Σ_i exp⟨β, y_i - g⟩         (ours; hull)
    a_i = exp(⟨β, y_i⟩ + c),  β minimises the convex  φ(β) = Σ_i exp(⟨β, y_i⟩ + c) - ⟨β, g⟩    (cone)

with ∇φ = Σ a_i y_i - g: at the minimum the condition holds. Newton's steps get there in about ten, to the last digits,
when g is inside. When it is outside, φ has no minimum, and on the way down ⟨β, g⟩ exceeds all ⟨β, y_i⟩: a certificate.
First-order steps take thousands on real codes, where many features have a margin near zero. One step costs a K × K
factorisation and n · L0² for the curvature: for dictionaries of up to `MOST_LATENTS` live latents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

__all__ = ["MOST_LATENTS", "Tilt", "tilt"]

MOST_LATENTS = 2048
STEPS, RIDGE, SHRINKS = 60, 1e-11, 40
Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Tilt:
    """Where Newton's steps ended.

    Attributes
    ----------
    beta
        (K,) in scaled codes.
    shift
        c of the cone, or the logarithm of what divides the weights of the hull, with its sign: a = exp(⟨β, y⟩ + shift).
    distance
        ‖g - Σ a_i y_i‖: an upper bound of D_j.
    outside
        β separates g from every row: β is the certificate.
    """

    beta: Float64[np.ndarray, " K"]
    shift: float
    distance: float
    outside: bool


def tilt(
    matrix: Matrix, g: Float64[np.ndarray, " K"], tol: float, proves: Callable[[Float64[np.ndarray, " K"]], bool] | None
) -> Tilt:
    """Tilt equal weights until they reach g to `tol`, or β separates it, or the steps end.

    Parameters
    ----------
    matrix
        Rows of I_j in scaled codes, compressed: ends, columns, values.
    g
        The target.
    tol
        Distance at which to stop.
    proves
        With a cone, where weights need not sum to one: whether β, made valid on all rows, still proves the feature
        outside. ``None`` for a hull, where that is seen here.
    """
    unreached = g.copy()
    unreached[matrix[1]] = 0.0
    if unreached.any():  # latents that never fire on these rows separate alone
        return Tilt(unreached, 0.0, float(np.linalg.norm(g)), True)
    fires = np.zeros(len(g), bool)
    fires[matrix[1]] = True
    number = (np.cumsum(fires) - 1).astype(np.int32)

    def full(beta: Float64[np.ndarray, " L"]) -> Float64[np.ndarray, " K"]:
        out = np.zeros_like(g)
        out[fires] = beta
        return out

    few = (matrix[0], number[matrix[1]], matrix[2])
    made = _descend(few, g[fires], tol, None if proves is None else lambda beta: proves(full(beta)))
    return Tilt(full(made.beta), made.shift, made.distance, made.outside)


def _descend(matrix: Matrix, g: np.ndarray, tol: float, proves: Callable[[np.ndarray], bool] | None) -> Tilt:
    from monoseme.optimality import loops

    n, cone = len(matrix[0]) - 1, proves is not None
    beta, dots, rho = np.zeros_like(g), np.zeros(n), np.empty_like(g)
    shift = -float(np.log(n))
    for _ in range(STEPS):
        a = np.exp(dots + shift)
        loops.residual(*matrix, a, g, rho)
        distance = float(np.linalg.norm(rho))
        # with a cone, the largest ⟨β, y⟩ counts above 0 only
        outside = float(beta @ g) > max(float(dots.max()), 0.0 if cone else -np.inf)
        outside = outside and (proves is None or proves(beta))
        if distance <= tol or outside:
            return Tilt(beta, shift, distance, outside and distance > tol)
        step = _newton(matrix, a, g, rho, cone)
        if step is None:
            break
        moved = np.empty(n)
        loops.times(*matrix, step, moved)
        t = _line(dots, shift, moved, float(beta @ g), float(step @ g), float(rho @ step), cone)
        if t == 0.0:
            break
        beta, dots = beta + t * step, dots + t * moved
        if not cone:
            highest = float(dots.max())
            shift = -highest - float(np.log(np.exp(dots - highest).sum()))
    return Tilt(beta, shift, float(np.linalg.norm(rho)), False)


def _newton(matrix: Matrix, a: np.ndarray, g: np.ndarray, rho: np.ndarray, cone: bool) -> np.ndarray | None:
    """H⁻¹ρ, H = Σ a y yᵀ (hull: less the mean's part; upper half), scaled to a unit diagonal; None when too flat."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    from monoseme.optimality import loops

    curve = np.zeros((len(g), len(g)))
    loops.gram(*matrix, a, curve)
    if not cone:
        mean = g - rho
        curve -= np.outer(mean, mean)
    size = np.sqrt(np.maximum(np.diag(curve), 0.0))
    if not size.all():
        return None  # the weights have left all rows of some latent
    curve /= size[:, None]
    curve /= size
    right = rho / size
    for ridge in (RIDGE, 1e3 * RIDGE, 1e6 * RIDGE):
        curve[np.diag_indices(len(g))] = 1.0 + ridge
        try:
            return cho_solve(cho_factor(curve, check_finite=False), right, check_finite=False) / size
        except LinAlgError:
            continue
    return None


def _line(
    dots: np.ndarray, shift: float, moved: np.ndarray, here: float, step: float, slope: float, cone: bool
) -> float:
    """Halve the step until φ falls by a ten-thousandth of what its slope says; 0 when it never does."""

    def phi(t: float) -> float:
        along = dots + t * moved
        if cone:
            along = along + shift
            return float(np.exp(along).sum()) - here - t * step if along.max() < 700 else np.inf
        highest = float(along.max())
        return highest + float(np.log(np.exp(along - highest).sum())) - here - t * step

    now, t = phi(0.0), 1.0
    for _ in range(SHRINKS):
        if phi(t) <= now - 1e-4 * t * slope:
            return t
        t *= 0.5
    return 0.0
