"""Unit directions with a stated cosine between them."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int64

__all__ = ["around", "unit_rows"]


def unit_rows(count: int, d: int, stream: np.random.Generator) -> Float64[np.ndarray, "m d"]:
    """`count` unit vectors: orthonormal (QR of a Gaussian matrix) when they fit into d, else independent and random.

    Independent ones have cosines of mean 0 and standard deviation 1/√d.
    """
    gaussian = stream.normal(size=(count, d))
    if count <= d:
        return np.ascontiguousarray(np.linalg.qr(gaussian.T)[0].T)
    return gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)


def around(
    centres: Float64[np.ndarray, "g d"], of: Int64[np.ndarray, " m"], own: Float64[np.ndarray, "m d"], cosine: float
) -> Float64[np.ndarray, "m d"]:
    """Unit vectors at one angle to their centre: c · cosine + √(1 − cosine²) · what `own` has beside c.

    ⟨w_i, c⟩ = cosine exactly, because each own vector is first made orthogonal to its centre and of norm 1. A Gaussian
    that is merely added has norm √d, and would swamp the centre.

    Parameters
    ----------
    centres
        Unit vectors.
    of
        The centre of each vector.
    own
        Vectors to be turned; none may be parallel to its centre.
    cosine
        In [0, 1).
    """
    c = centres[of]
    beside = own - (own * c).sum(1, keepdims=True) * c
    beside /= np.linalg.norm(beside, axis=1, keepdims=True)
    return cosine * c + math.sqrt(1 - cosine**2) * beside
