"""Spans of blocks, and how alike two of them are, without regard to the basis, scale or order they are written in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

__all__ = ["Spans", "similarity", "spans"]

RANK_TOLERANCE = 1e-5  # of a block's largest singular value: above what float32 training leaves of an exact zero
ENTRIES = 1 << 24  # numbers of the large product held at once, 128 MiB


@dataclass(frozen=True, eq=False)
class Spans:
    """Orthonormal bases of G spans in d dimensions, float64.

    Attributes
    ----------
    bases
        (G, b, d) orthonormal rows, zeros below a block's rank.
    rank
        (G,) dimension of each span; 0 for a block whose atoms are all zero.
    """

    bases: Float64[Tensor, "G b d"]
    rank: Int[Tensor, " G"]

    def __len__(self) -> int:
        return len(self.rank)

    def take(self, blocks: Int[Tensor, " m"]) -> Spans:
        """Return some of them."""
        return Spans(self.bases[blocks], self.rank[blocks])


def spans(atoms: Float[Tensor, "G b d"]) -> Spans:
    """Span of every block: right singular vectors above `RANK_TOLERANCE` of the block's largest singular value.

    A scalar atom keeps its sign.
    """
    wide = atoms.detach().to("cpu", torch.float64)
    if wide.shape[1] == 1:
        norms = torch.linalg.vector_norm(wide, dim=2, keepdim=True)
        bases = torch.where(norms > 0, wide / norms.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
        return Spans(bases, (norms[:, 0, 0] > 0).long())
    _, values, vectors = torch.linalg.svd(wide, full_matrices=False)
    kept = (values > RANK_TOLERANCE * values[:, :1]) & (values > 0)
    return Spans(vectors * kept[:, :, None], kept.sum(1))


def similarity(first: Spans, second: Spans, nonneg: bool = False) -> Float64[np.ndarray, "G H"]:
    """Mean squared cosine of the principal angles between every span of one and every span of the other.

    s_gh = ‖Q_g Q_hᵀ‖_F² / max(rank_g, rank_h): 1 exactly when the spans are equal, 0 when they are orthogonal. A line
    inside a plane scores 1/2: the direction that is missing counts as a right angle. Between random spans of rank b the
    mean is b/d. For b = 1 it is cos².

    Parameters
    ----------
    first, second
        In the same space.
    nonneg
        For scalar atoms whose codes are never negative: opposite directions are different, max(0, cos)². Ignored for
        larger blocks, whose spans have no sign.
    """
    G, b, d = first.bases.shape
    H, c, _ = second.bases.shape
    other = second.bases.reshape(H * c, d).T
    scale = torch.maximum(first.rank[:, None], second.rank[None, :]).clamp(min=1).double()
    out = torch.empty(G, H, dtype=torch.float64)
    step = max(1, ENTRIES // max(b * c * H, 1))
    for start in range(0, G, step):
        products = first.bases[start : start + step].reshape(-1, d) @ other
        if nonneg and b == c == 1:
            products = products.clamp_(min=0)
        out[start : start + step] = products.square_().reshape(-1, b, H, c).sum((1, 3))
    return (out / scale).clamp_(max=1).numpy()
