"""The loss of a sparse dictionary, and the forms of it in which it is convex.

Rows x_i ≈ z_i W + b, unit atoms w_k in the rows of W, n rows, means over all of them. Three forms with one minimum over
nonnegative codes:

    L(W, Z, b)   = E‖zW + b - x‖² + 2λ E Σ_k z_k                                      `loss`
    S(V, Y, b)   = E‖yV + b - x‖² + λ Σ_k (‖v_k‖² + (E y_k)²)                         `symmetric_loss`
    F(Q, b)      = λ tr[(X - b)ᵀ (λn I + Q)⁻¹ (X - b)] + λ 1ᵀQ1 / n²,   Q = YYᵀ       `gram_loss`

L = min S over the scales of (v_k/s, s y_k), because 2 ‖v‖ m is the least ‖v‖²/s² + s² m²; F = min S over V, a ridge
regression. F is jointly convex in (Q, b), so over the cone of all Q = YYᵀ, Y ≥ 0 of any width, every local minimum is
global. In (W, Z) that is not so, not even with as many atoms as rows (arXiv 2606.02385 states the convexity; the forms
as written here are ours).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.optimality.wide import check_lam

__all__ = ["balanced", "gram_loss", "loss", "ridge_atoms", "symmetric_loss", "unit_atoms"]


def loss(
    x: Float64[np.ndarray, "n d"],
    atoms: Float64[np.ndarray, "K d"],
    codes: Float64[np.ndarray, "n K"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
) -> float:
    """E‖zW + b - x‖² + 2λ E Σ_k |z_k|, units of ‖x‖². Lower is better; what it means needs unit atoms."""
    return float(np.square(codes @ atoms + bias - x).sum(1).mean() + 2 * lam * np.abs(codes).sum(1).mean())


def symmetric_loss(
    x: Float64[np.ndarray, "n d"],
    v: Float64[np.ndarray, "K d"],
    y: Float64[np.ndarray, "n K"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
) -> float:
    """E‖yV + b - x‖² + λ Σ_k (‖v_k‖² + (E|y_k|)²), units of ‖x‖²; V is free.

    The square of the mean, not the mean of squares. Never below `loss` of `unit_atoms(v, y)`; equal to it where
    ‖v_k‖ = E|y_k| for every k.
    """
    fit = np.square(y @ v + bias - x).sum(1).mean()
    return float(fit + lam * (np.square(v).sum() + np.square(np.abs(y).mean(0)).sum()))


def balanced(
    atoms: Float64[np.ndarray, "K d"], codes: Float64[np.ndarray, "n K"]
) -> tuple[Float64[np.ndarray, "K d"], Float64[np.ndarray, "n K"]]:
    """(V, Y) with VY = WZ and ‖v_k‖ = E|y_k| = √m_k, m_k = E|z_k|: where `symmetric_loss` equals `loss`.

    Latents that are never on become zero on both sides.
    """
    root = np.sqrt(np.abs(codes).mean(0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return atoms * root[:, None], codes * inverse


def unit_atoms(
    v: Float64[np.ndarray, "K d"], y: Float64[np.ndarray, "n K"]
) -> tuple[Float64[np.ndarray, "K d"], Float64[np.ndarray, "n K"]]:
    """(W, Z) with WZ = VY and unit atoms: w_k = v_k/‖v_k‖, z_k = ‖v_k‖ y_k. Where v_k = 0 both are zero."""
    norm = np.linalg.norm(v, axis=1)
    inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    return v * inverse[:, None], y * norm


def ridge_atoms(
    x: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n K"], bias: Float64[np.ndarray, " d"], lam: float
) -> Float64[np.ndarray, "K d"]:
    """The V that minimises `symmetric_loss` for given Y and b: (YᵀY + λn I)⁻¹ Yᵀ(X - b)."""
    n, k = y.shape
    return np.linalg.solve(y.T @ y + check_lam(lam) * n * np.eye(k), y.T @ (x - bias))


def gram_loss(
    x: Float64[np.ndarray, "n d"], q: Float64[np.ndarray, "n n"], bias: Float64[np.ndarray, " d"], lam: float
) -> float:
    """F(Q, b) = λ {tr[(X - b)ᵀ (λn I + Q)⁻¹ (X - b)] + 1ᵀQ1 / n²}, units of ‖x‖².

    Equals min over V of `symmetric_loss` for every Y ≥ 0 with YYᵀ = Q, of any width. Signed Y with the same Q have
    other penalties, so their loss is not a function of Q. Jointly convex: a matrix fraction with X - b affine in b,
    plus a linear term.

    Parameters
    ----------
    x
        (n, d) rows.
    q
        (n, n) Gram matrix of the rows' codes: symmetric, positive semidefinite. Memory grows as n², time as n³.
    bias
        (d,).
    lam
        λ > 0, units of x.

    Raises
    ------
    UserError
        If λ ≤ 0, or Q is not symmetric or not positive semidefinite.
    """
    lam, n = check_lam(lam), len(x)
    size = float(np.abs(q).max(initial=0.0))
    if q.shape != (n, n):
        raise refuse("q", f"have the shape {(n, n)} of the rows", q.shape, "It is codes @ codes.T.")
    if not np.isfinite(q).all() or np.abs(q - q.T).max(initial=0.0) > 1e-9 * size:
        raise refuse("q", "be finite and symmetric", "a matrix that is not", "It is codes @ codes.T.")
    lowest = float(np.linalg.eigvalsh(q)[0])
    if lowest < -1e-9 * n * size:
        raise refuse("q", "be positive semidefinite", f"an eigenvalue of {lowest:.3g}", "It is codes @ codes.T.")
    centred = x - bias
    fraction = np.sum(centred * np.linalg.solve(lam * n * np.eye(n) + q, centred))
    return float(lam * (fraction + q.sum() / n**2))
