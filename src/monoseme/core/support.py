"""`Support`: which blocks are active on which rows, and the same read by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

__all__ = ["Support"]


@dataclass(frozen=True)
class Support:
    """Active blocks of n rows, compressed by rows; ascending inside a row.

    Attributes
    ----------
    indptr
        (n + 1,) int64.
    indices
        (nnz,) int32.
    n_blocks
        G.
    """

    indptr: Int[Tensor, " rows_plus_one"]
    indices: Int[Tensor, " nnz"]
    n_blocks: int

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.indptr) - 1

    @cached_property
    def rows(self) -> Int[Tensor, " nnz"]:
        """The row of every entry, int64."""
        return torch.repeat_interleave(torch.arange(self.n_rows, device=self.indptr.device), self.indptr.diff())

    @cached_property
    def by_block(self) -> tuple[Int[Tensor, " blocks_plus_one"], Int[Tensor, " nnz"]]:
        """Entries sorted by block, rows ascending inside a block: (block pointer, positions).

        Both weight gradients need it, so it is computed once a batch. A stable sort keeps the order of summation, and
        with it every bit, fixed.
        """
        order = torch.argsort(self.indices, stable=True)
        pointer = torch.zeros(self.n_blocks + 1, dtype=torch.int64, device=self.indices.device)
        torch.cumsum(self.counts(), 0, out=pointer[1:])
        return pointer, order

    def counts(self) -> Int[Tensor, " G"]:
        """On how many rows each block is active."""
        return torch.bincount(self.indices.long(), minlength=self.n_blocks)

    @classmethod
    def from_mask(cls, mask: Bool[Tensor, "n G"]) -> Support:
        """Compress a dense mask."""
        indices = mask.nonzero(as_tuple=True)[1]
        indptr = torch.zeros(len(mask) + 1, dtype=torch.int64, device=mask.device)
        torch.cumsum(mask.sum(1), 0, out=indptr[1:])
        return cls(indptr, indices.to(torch.int32), mask.shape[1])

    def to_mask(self) -> Bool[Tensor, "n G"]:
        """The dense mask."""
        mask = torch.zeros(self.n_rows, self.n_blocks, dtype=torch.bool, device=self.indices.device)
        mask[self.rows, self.indices.long()] = True
        return mask
