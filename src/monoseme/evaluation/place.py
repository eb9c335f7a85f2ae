"""Where in a block a row lies: its contribution z D in the block's first principal directions (arXiv 2606.25234, §3.5).

The principal directions are those of the contributions about 0, not about their mean: a place is itself not centred, so
these three axes show the most of it, and they exist even for a block that fires once.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

__all__ = ["principal_frame"]


def principal_frame(
    z: Float64[np.ndarray, "m b"], atoms: Float64[np.ndarray, "b d"], most: int = 3
) -> Float64[np.ndarray, "b r"]:
    """Linear map from codes of one block to places, ``place = z @ frame``; at most `most` columns.

    The same contributions give the same places: rotating the block, z Qᵀ and Q D, changes nothing. Signs are fixed by
    making the largest entry of each direction, in the space of the rows, positive (of equally large ones the first).
    Directions with equal spread are only determined up to a rotation among themselves.

    Parameters
    ----------
    z
        Codes where the block fires.
    atoms
        D of the block.
    most
        Directions to keep.

    Examples
    --------
    >>> z = np.array([[3.0, 0.0], [0.0, 1.0]])
    >>> (z @ principal_frame(z, np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]))).tolist()
    [[-3.0, 0.0], [0.0, 1.0]]
    """
    basis, turn = np.linalg.qr(atoms.T)  # D = turnᵀ basisᵀ, basis (d, b) orthonormal: everything stays b wide
    local = z @ turn.T
    _, vectors = np.linalg.eigh(local.T @ local)
    vectors = vectors[:, ::-1][:, :most]
    directions = basis @ vectors
    # rounding must not choose between entries of equal size
    size = np.abs(directions)
    first = np.argmax(size >= size.max(0) * (1 - 1e-6), axis=0)
    signs = np.where(directions[first, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
    return turn.T @ (vectors * signs)
