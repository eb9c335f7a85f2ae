"""The two bounds of D_j, each with what proves it: weights on rows from above, a direction from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

__all__ = ["Direction", "Weights"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights on rows, and how far from g they end: an upper bound of D_j.

    `even` is the sum of equal weights on all of I_j, which are not written out; those in `weight` come on top of them.
    With a `tilt` the weights are exp(⟨tilt, z_i⟩ + even) on all of I_j instead, and nothing else.
    """

    rows: Int64[np.ndarray, " m"]
    weight: Float64[np.ndarray, " m"]
    distance: float
    even: float = 0.0
    tilt: Float64[np.ndarray, " K"] | None = None


@dataclass(frozen=True, eq=False)
class Direction:
    """β, β₀ with γ > 0: a lower bound of D_j, and a guaranteed descent.

    `most` is e_max, the largest step at which no code of j becomes negative.
    """

    index: Int64[np.ndarray, " s"]
    weight: Float64[np.ndarray, " s"]
    offset: float
    gamma: float
    size: float  # S
    most: float

    @property
    def bound(self) -> float:
        """Lower bound of D_j, γ / √S; infinite when only the bias moves."""
        if self.gamma <= 0:
            return 0.0
        return self.gamma / self.size**0.5 if self.size > 0 else np.inf

    @property
    def step(self) -> float:
        """The best allowed e."""
        return min(self.gamma / self.size if self.size > 0 else np.inf, self.most)

    @property
    def guaranteed(self) -> float:
        """(2eγ - e²S) at the best allowed e: times λ, the loss that goes for certain."""
        e = self.step
        return 2 * e * self.gamma - e * e * self.size if self.gamma > 0 else 0.0
