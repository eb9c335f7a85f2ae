"""The slow twin: block-sparse arithmetic in plain torch.

It defines what the fast loops compute, and serves every device for which there are no loops. Gradients come from
autograd. On a GPU its sums have no fixed order: runs repeat up to rounding there, not bit for bit. Convention, here and
in the loops: a block whose projected norm is zero is never active, and of equal norms the block with the lower index
wins.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.cones import Sign, block_norms
from monoseme.core.support import Support

__all__ = ["decode", "select_topk", "values_at"]


def select_topk(pre: Float[Tensor, "n G b"], k: int, sign: Sign) -> Support:
    """Support of the k blocks of largest projected norm on every row (fewer where fewer are non-zero)."""
    norms = block_norms(pre, sign)
    order = norms.sort(dim=1, descending=True, stable=True).indices[:, :k]
    mask = torch.zeros_like(norms, dtype=torch.bool).scatter_(1, order, True)
    return Support.from_mask(mask & (norms > 0))


def values_at(
    x: Float[Tensor, "n d"],
    weight: Float[Tensor, "G b d"],
    bias: Float[Tensor, "G b"] | None,
    support: Support,
) -> Float[Tensor, "nnz b"]:
    """Pre-codes x·weightᵀ + bias at the entries of the support only."""
    indices = support.indices.long()
    values = torch.einsum("pd,pbd->pb", x[support.rows], weight[indices])
    return values if bias is None else values + bias[indices]


def decode(values: Float[Tensor, "nnz b"], support: Support, atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "n d"]:
    """Σ_g z_g D_g on every row."""
    contributions = torch.einsum("pb,pbd->pd", values, atoms[support.indices.long()])
    return contributions.new_zeros(support.n_rows, atoms.shape[-1]).index_add(0, support.rows, contributions)
