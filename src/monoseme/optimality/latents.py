"""`Latents`: any dictionary and its codes, brought to the one form in which the theory speaks of them.

    x_i  ≈  z_i W + b,   z_i ≥ 0,   ‖w_k‖ = 1

A signed scalar counts as two atoms ±w. What had to be changed to get there is said in `notes`, never silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Float64, Int32, Int64

__all__ = ["Latents"]


@dataclass(frozen=True, eq=False)
class Latents:
    """Nonnegative codes of n rows over K unit atoms, compressed by rows.

    Attributes
    ----------
    atoms
        (K, d), unit norm, float64.
    bias
        (d,), raw units.
    indptr, indices, values
        Row i owns the entries ``indptr[i]:indptr[i + 1]``; indices ascend inside a row, values are positive and finite.
    owner, side
        (K,) the block of the dictionary each latent comes from, and +1 or -1 (the atom is ``side`` times the block's).
    learned_bias
        Whether the bias is free to move. If so the hull condition applies, if not the cone.
    notes
        What was changed on the way here, a sentence each.
    """

    atoms: Float64[np.ndarray, "K d"]
    bias: Float64[np.ndarray, " d"]
    indptr: Int64[np.ndarray, " rows_plus_one"]
    indices: Int32[np.ndarray, " nnz"]
    values: Float[np.ndarray, " nnz"]
    owner: Int64[np.ndarray, " K"]
    side: Int64[np.ndarray, " K"]
    learned_bias: bool = True
    notes: tuple[str, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.indptr) - 1

    @property
    def n_latents(self) -> int:
        """K."""
        return len(self.atoms)
