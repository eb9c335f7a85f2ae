"""The slack certificate: at a point that fulfils K1-K3, one pass over the rows decides every hull test.

The weights a_i = s_i / n with s_i = 1 - ⟨w_j, r_i⟩ / λ on the rows where j is off solve (H) exactly there (dot K2 with
w_j, use K1; their sum is 1 by K3; ours). Elsewhere the clipped and normalised slacks are one more candidate: an upper
bound of D_j, for all features in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float64

from monoseme.optimality.columns import Columns
from monoseme.optimality.latents import Latents

__all__ = ["slack_bounds", "slacks"]

FLOATS = 1 << 25  # entries of the table of one pass: 256 MB


def slacks(
    x: Float64[np.ndarray, "n d"], codes: Any, latents: Latents, lam: float, low: int, high: int
) -> Float64[np.ndarray, "n m"]:
    """max(1 - ⟨w_j, r⟩/λ, 0) for latents low to high, 0 where they are on."""
    r = x - latents.bias - codes @ latents.atoms
    s = np.maximum(1.0 - r @ latents.atoms[low:high].T / lam, 0.0)
    row, latent = codes.nonzero()
    here = (latent >= low) & (latent < high)
    s[row[here], latent[here] - low] = 0.0
    return s


def slack_bounds(
    batches: Callable[[], Iterator[tuple[np.ndarray, Any]]], latents: Latents, by: Columns, lam: float
) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
    """Upper bound of every D_j, and the sum Σ s_i of its slacks; infinite where the feature is never off.

    One pass over the rows, or several when a K x K table would not fit.
    """
    k, step = latents.n_latents, max(1, FLOATS // max(latents.n_latents, 1))
    bound, total = np.full(k, np.inf), np.zeros(k)
    root = np.sqrt(by.mass)
    scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    for low in range(0, k, step):
        high = min(low + step, k)
        reached, weight = np.zeros((k, high - low)), np.zeros(high - low)
        for x, codes in batches():
            s = slacks(x, codes, latents, lam, low, high)
            reached += codes.T @ s
            weight += s.sum(0)
        norm = weight if latents.learned_bias else np.full(high - low, float(latents.n_rows))
        with np.errstate(divide="ignore", invalid="ignore"):
            y = scale[:, None] * reached / norm
        g = root[:, None] * (1 - latents.atoms @ latents.atoms[low:high].T)
        g[np.arange(low, high), np.arange(high - low)] = 0.0
        gap = np.linalg.norm(g - y, axis=0)
        bound[low:high] = np.where((norm > 0) & np.isfinite(gap), gap, np.inf)
        total[low:high] = weight
    return bound, total
