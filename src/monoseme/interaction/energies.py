"""Energies of an average gradient outer product: how much of it lies off its diagonal, and in how many directions.

G is a symmetric positive semi-definite (D, D) matrix, G = E[Jᵀ J] (input side) or E[J Jᵀ] (output side).

    AOFE        ‖G‖_F² - Σ_i G_ii²                      average off-diagonal feature energy (arXiv 2605.27989)
    AOFE-ratio  AOFE / ‖G‖_F²                           in [0, 1); free of scale, not of the basis
    mean cos²   AOFE / (tr(G)² - Σ_i G_ii²)             weighted mean of squared cosines between coordinates, in [0, 1]
    PR          tr(G)² / ‖G‖_F²                         participation ratio, in [1, D]
    rank_eff    exp(-Σ p_i ln p_i), p = spectrum / tr   effective rank (Roy & Vetterli 2007), in [1, D]

In a random orthonormal basis the expected AOFE-ratio is 1 - (PR + 2)/(D + 2) (ours): `rotation_baseline`. What a basis
means shows in the excess over it. AOFE has the unit of a gradient to the fourth power; AOFE / tr(G)² does not depend on
the scale of outputs, and is what compares across widths.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse

__all__ = [
    "aofe",
    "aofe_ratio",
    "effective_rank",
    "excess",
    "mean_cos2",
    "normalised_aofe",
    "participation_ratio",
    "rotation_baseline",
    "spectrum",
    "trace",
]

Gram = Float64[np.ndarray, "D E"]  # E must be D


def trace(g: Gram) -> float:
    """tr(G), the mean squared norm of the gradients."""
    return float(np.trace(_checked(g)))


def aofe(g: Gram) -> float:
    """‖G‖_F² - Σ G_ii², squared energy off the diagonal."""
    whole, diagonal, _ = _parts(g)
    return max(whole - diagonal, 0.0)


def aofe_ratio(g: Gram) -> float:
    """Share of ‖G‖_F² off the diagonal; 0 for a zero matrix."""
    whole, diagonal, _ = _parts(g)
    return max(whole - diagonal, 0.0) / whole if whole > 0 else 0.0


def mean_cos2(g: Gram) -> float:
    """Squared cosines between the coordinates' gradients, weighted by G_ii G_jj; 0 with fewer than two live ones."""
    whole, diagonal, total = _parts(g)
    room = total**2 - diagonal
    # with one live coordinate the room is the rounding of a difference
    return max(whole - diagonal, 0.0) / room if room > 1e-14 * total**2 else 0.0


def normalised_aofe(g: Gram) -> float:
    """AOFE / tr(G)²: free of the scale of outputs, at most 1; equal to ratio / PR."""
    whole, diagonal, total = _parts(g)
    return max(whole - diagonal, 0.0) / total**2 if total > 0 else 0.0


def participation_ratio(g: Gram) -> float:
    """tr(G)² / ‖G‖_F²: directions that share the gradients; 0 for a zero matrix."""
    whole, _, total = _parts(g)
    return total**2 / whole if whole > 0 else 0.0


def rotation_baseline(g: Gram) -> float:
    """AOFE-ratio to expect in a random orthonormal basis, 1 - (PR + 2)/(D + 2)."""
    return 1.0 - (participation_ratio(g) + 2.0) / (len(g) + 2.0)


def excess(g: Gram) -> float:
    """AOFE-ratio above `rotation_baseline`; below 0 where the basis is closer to G's own directions than chance."""
    return aofe_ratio(g) - rotation_baseline(g)


def spectrum(g: Gram) -> Float64[np.ndarray, " D"]:
    """Eigenvalues, largest first; negative rounding is 0."""
    return np.maximum(np.linalg.eigvalsh(_checked(g))[::-1], 0.0)


def effective_rank(g: Gram) -> float:
    """Exponential of the spectrum's entropy; 0 for a zero matrix."""
    values = spectrum(g)
    total = values.sum()
    if total <= 0:
        return 0.0
    p = values[values > 0] / total
    return float(np.exp(-(p * np.log(p)).sum()))


def _parts(g: Gram) -> tuple[float, float, float]:
    """‖G‖_F², Σ G_ii², tr(G)."""
    g = _checked(g)
    diagonal = np.diag(g)
    return float(np.square(g).sum()), float(diagonal @ diagonal), float(diagonal.sum())


def _checked(g: Gram) -> Gram:
    g = np.asarray(g, np.float64)
    if g.ndim != 2 or g.shape[0] != g.shape[1] or len(g) == 0:
        raise refuse("g", "be a square matrix", f"shape {g.shape}", "Pass the (D, D) matrix of an Agop.")
    if not np.isfinite(g).all():
        raise refuse("g", "be finite", "NaN or infinity", "Look for overflow in the gradients.")
    return g
