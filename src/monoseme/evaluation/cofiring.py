"""Do two blocks fire alike? Correlations of presences over the same rows, from the sparse codes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.code import Code

if TYPE_CHECKING:
    from scipy.sparse import csc_array

__all__ = ["presence_correlation"]


def presence_correlation(
    first: Code, blocks: Int64[np.ndarray, " m"], second: Code, partners: Int64[np.ndarray, " m"]
) -> Float64[np.ndarray, " m"]:
    """Pearson correlation over rows of ‖z_g‖ in one code and ‖z_h‖ in another, 0 where a block is silent.

    Parameters
    ----------
    first, second
        Codes of the same rows in the same order.
    blocks, partners
        Which block of `first` is compared with which of `second`.

    Returns
    -------
    Array
        In [−1, 1]; NaN where one of the two is constant over the rows.
    """
    a, b = _presences(first, blocks), _presences(second, partners)
    n = first.n_rows
    mean_a, mean_b = (np.asarray(each.sum(0)) / n for each in (a, b))
    square_a, square_b = (np.asarray(each.multiply(each).sum(0)) / n for each in (a, b))
    together = np.asarray(a.multiply(b).sum(0)) / n - mean_a * mean_b
    spread_a, spread_b = square_a - mean_a**2, square_b - mean_b**2
    varies = (spread_a > 1e-12 * square_a) & (spread_b > 1e-12 * square_b)
    scale = np.sqrt(np.where(varies, spread_a * spread_b, 1.0))
    return np.where(varies, together / scale, np.nan)


def _presences(code: Code, blocks: Int64[np.ndarray, " m"]) -> csc_array:
    from scipy.sparse import csr_array

    lists = (code.presence.detach().double().cpu().numpy(), code.indices.cpu().numpy(), code.indptr.cpu().numpy())
    return csr_array(lists, shape=(code.n_rows, code.n_blocks)).tocsc()[:, blocks]
