"""Sums over independent units from which the AOFE and its kin follow, as they stand and without bias.

A unit i (a picture, a window of text, a row) gives its gradients as rows of a factor F_i (m, D), scaled so that
G_i = F_iᵀ F_i and the AGOP is G = E G_i. Squares of a mean of noisy G_i are too large; from Σ G_i and Σ ‖G_i‖² the mean
over *pairs of different units*, E⟨G_i, G_j⟩ = ‖E G‖², is not (see `population`). Standard errors come from leaving out
one group of units at a time, so the sums are kept by group: unit i belongs to group i mod M.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["FactorSums", "scaled"]

GROUPS, FEWEST = 32, 8
CHUNK = 1 << 26  # numbers in the matrices of the units that are formed at once


class FactorSums:
    """Mergeable sums of units. Estimates do not depend on how units come in batches; the grouping neither.

    Parameters
    ----------
    width
        D.
    keep
        Bytes that the sums may take. With room for fewer than 8 groups of (D, D) float64 one is kept, and intervals are
        not known.
    """

    def __init__(self, width: int, keep: int = 1 << 30) -> None:
        if width < 1:
            raise refuse("width", "be at least 1", width, "It is the number of coordinates of a gradient.")
        fit = keep // (8 * width * width)
        if fit < 1:
            got = f"{width} ({8 * width * width / 2**30:.1f} GiB)"
            raise refuse("width", f"give a matrix of at most {keep:,} bytes", got, "Raise keep, or go matrix-free.")
        self.width, self.n = width, 0
        groups = 1 if fit < FEWEST else min(GROUPS, fit)
        self.totals = torch.zeros(groups, width, width, dtype=torch.float64)
        # by group: units, Σ‖G_i‖², Σ‖diag G_i‖², Σ tr(G_i)²
        self.squares = torch.zeros(4, groups, dtype=torch.float64)

    @property
    def groups(self) -> int:
        """Groups in which sums are kept; 1 when there is no room for more."""
        return len(self.totals)

    @property
    def finite(self) -> bool:
        """Whether no NaN and no infinity has come in."""
        return bool(torch.isfinite(self.squares).all())

    @torch.no_grad()
    def add(self, factors: Float[Tensor, "n m D"]) -> None:
        """Add units. Products are formed in the factors' own precision and summed in float64."""
        if factors.ndim != 3 or factors.shape[2] != self.width:
            got = f"shape {tuple(factors.shape)}"
            raise refuse("factors", f"be (units, rows, {self.width})", got, "One factor a unit.")
        n, m, d = factors.shape
        scale, factors = scaled(factors)
        group = (torch.arange(n) + self.n) % self.groups
        self.n += n
        for part, at in zip(
            factors.split(max(1, CHUNK // (d * d))), group.split(max(1, CHUNK // (d * d))), strict=True
        ):
            self._products(part.to("cpu") if part.device.type == "mps" else part, at, m < d // 2, scale**2)

    def _products(self, factors: Tensor, group: Tensor, few: bool, unit: float) -> None:
        """With few rows ‖G_i‖² is that of the small matrix F Fᵀ; else G_i is formed."""
        diagonal = factors.square().sum(1).double().cpu()
        if few:
            square = (factors @ factors.mT).double().square().sum((1, 2)).cpu()
            for g in group.unique():
                rows = factors[(group == g).to(factors.device)].flatten(0, 1)
                self.totals[g] += unit * (rows.mT @ rows).double().cpu()
        else:
            made = (factors.mT @ factors).double().cpu()
            square = made.square().sum((1, 2))
            self.totals.index_add_(0, group, unit * made)
        parts = torch.stack([square, diagonal.square().sum(1), diagonal.sum(1).square()])
        self.squares.index_add_(1, group, torch.cat([torch.ones_like(square)[None], unit**2 * parts]))

    def merge(self, other: FactorSums) -> FactorSums:
        """Both together; groups are joined by number."""
        if (self.width, self.groups) != (other.width, other.groups):
            got = f"{other.width} and {other.groups}"
            raise refuse("other", f"have width {self.width} and {self.groups} groups", got, "Use the same keep.")
        both = FactorSums(self.width, 8 * self.width**2 * self.groups)
        both.n = self.n + other.n
        both.totals, both.squares = self.totals + other.totals, self.squares + other.squares
        return both

    def matrix(self) -> Float64[np.ndarray, "D D"]:
        """Mean of G_i over the units, exactly symmetric."""
        if self.n == 0:
            raise refuse("factors", "hold at least one unit", 0, "Add some first.")
        g = self.totals.sum(0).numpy() / self.n
        return 0.5 * (g + g.T)


def scaled(factors: Tensor) -> tuple[float, Tensor]:
    """A power of two near the largest entry, and the factors ÷ it, where squares of float32 might not hold it."""
    top = float(factors.abs().max()) if factors.numel() else 0.0
    if not 0 < top < float("inf"):
        return 1.0, factors
    scale = 2.0 ** round(math.log2(top))
    if 1e-6 < scale < 1e6:
        return 1.0, factors
    return scale, (factors.double() / scale).to(factors.dtype)
