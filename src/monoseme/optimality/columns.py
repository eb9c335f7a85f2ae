"""The codes of `Latents` read by latent, and the sums over rows that every condition needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32, Int64

from monoseme.optimality.latents import Latents

__all__ = ["Columns", "columns"]


@dataclass(frozen=True, eq=False)
class Columns:
    """Entries by latent, rows ascending, and the moments of each latent over all n rows.

    Attributes
    ----------
    indptr, rows, values
        Latent k owns the entries ``indptr[k]:indptr[k + 1]``.
    mass
        m_k = E[z_k].
    square
        E[z_k²].
    density
        p_k = P(z_k > 0).
    """

    indptr: Int64[np.ndarray, " K_plus_one"]
    rows: Int32[np.ndarray, " nnz"]
    values: Float64[np.ndarray, " nnz"]
    mass: Float64[np.ndarray, " K"]
    square: Float64[np.ndarray, " K"]
    density: Float64[np.ndarray, " K"]

    def of(self, k: int) -> tuple[Int32[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
        """Rows on which latent k is active, and its codes there."""
        part = slice(int(self.indptr[k]), int(self.indptr[k + 1]))
        return self.rows[part], self.values[part]


def columns(latents: Latents) -> Columns:
    """Sort the entries by latent: one counting sort, stable, so rows ascend."""
    from monoseme.optimality import loops

    n, k = latents.n_rows, latents.n_latents
    count = np.bincount(latents.indices, minlength=k).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(count)])
    rows, values = np.empty(len(latents.indices), np.int32), np.empty(len(latents.indices))
    loops.by_column(latents.indptr, latents.indices, latents.values, indptr[:-1].copy(), rows, values)
    mass = np.bincount(latents.indices, weights=latents.values, minlength=k) / max(n, 1)
    square = np.bincount(latents.indices, weights=np.square(latents.values, dtype=np.float64), minlength=k) / max(n, 1)
    return Columns(indptr, rows, values, mass, square, count / max(n, 1))
