"""`Code`: block-sparse codes, row-ragged. Only what is active is stored, so nothing has to be masked later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.support import Support

__all__ = ["Code"]


@dataclass(frozen=True)
class Code:
    """Codes of n rows over `n_blocks` blocks of size b, compressed by rows.

    Row i owns the entries ``indptr[i]:indptr[i + 1]``. There is no padding: every stored entry is an active block, so
    L0, bits and gradients count exactly what is there.

    Attributes
    ----------
    indptr
        (n + 1,) int64, starts at 0, does not fall.
    indices
        (nnz,) int32, the block of each entry; ascending inside a row.
    values
        (nnz, b), the coordinates z_g in the block, in raw activation units.
    n_blocks
        G.
    batch_shape
        Leading shape of the input: ``(n,)``, or ``(B, T)`` with B·T = n.
    """

    indptr: Int[Tensor, " rows_plus_one"]
    indices: Int[Tensor, " nnz"]
    values: Float[Tensor, "nnz b"]
    n_blocks: int
    batch_shape: tuple[int, ...] = (-1,)  # stands for (n,)

    def __post_init__(self) -> None:
        if self.batch_shape == (-1,):
            object.__setattr__(self, "batch_shape", (len(self.indptr) - 1,))

    def __repr__(self) -> str:
        shape, sizes = tuple(self.batch_shape), f"{self.n_blocks:,} blocks of size {self.block_size}"
        return f"Code(rows {shape}, {sizes}, {len(self.indices):,} active)"

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.indptr) - 1

    @property
    def block_size(self) -> int:
        """Number of coordinates in a block, b."""
        return self.values.shape[1]

    @cached_property
    def support(self) -> Support:
        """Which blocks are active, without their values."""
        return Support(self.indptr, self.indices, self.n_blocks)

    @property
    def l0(self) -> Int[Tensor, " n"]:
        """Active blocks of every row."""
        return self.indptr.diff()

    @property
    def rows(self) -> Int[Tensor, " nnz"]:
        """The row of every entry."""
        return self.support.rows

    @property
    def presence(self) -> Float[Tensor, " nnz"]:
        """‖z_g‖ of every entry."""
        return self.values.double().square().sum(1).sqrt().to(self.values.dtype)  # squares of 1e20 need double

    def counts(self) -> Int[Tensor, " G"]:
        """Return how many rows each block is active on. Add over batches, divide by rows: the density."""
        return self.support.counts()

    def to_dense(self) -> Float[Tensor, "*batch G b"]:
        """Return the codes with zeros written out, (..., G, b)."""
        dense = self.values.new_zeros(self.n_rows, self.n_blocks, self.block_size)
        dense[self.rows, self.indices.long()] = self.values
        return dense.reshape(*self.batch_shape, self.n_blocks, self.block_size)

    @classmethod
    def from_dense(cls, dense: Float[Tensor, "*batch G b"], active: Bool[Tensor, "*batch G"] | None = None) -> Code:
        """Compress dense codes; a block is active where any coordinate is non-zero, or where `active` says so."""
        *batch, n_blocks, block_size = dense.shape
        flat = dense.reshape(-1, n_blocks, block_size)
        mask = (flat != 0).any(-1) if active is None else active.reshape(-1, n_blocks)
        support = Support.from_mask(mask)
        return cls(support.indptr, support.indices, flat[mask], n_blocks, tuple(batch))

    def to(self, device: str | torch.device) -> Code:
        """Return the same code on another device; itself when it is there already."""
        if self.values.device == torch.device(device):
            return self
        indptr, indices, values = (part.to(device) for part in (self.indptr, self.indices, self.values))
        return Code(indptr, indices, values, self.n_blocks, self.batch_shape)

    def entries_of(self, block: int) -> Int[Tensor, " m"]:
        """Positions (into `indices`, `values`, `rows`) of the entries of one block."""
        if not 0 <= block < self.n_blocks:
            raise refuse("block", f"lie in 0..{self.n_blocks - 1}", block, "Blocks are counted from 0.")
        return (self.indices == block).nonzero().squeeze(1)

    def select_rows(self, start: int, stop: int) -> Code:
        """Rows start:stop as a code of their own (batch shape flattened)."""
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        return Code(self.indptr[start : stop + 1] - low, self.indices[low:high], self.values[low:high], self.n_blocks)

    @staticmethod
    def cat(codes: Sequence[Code]) -> Code:
        """Rows of several codes under one another (batch shape flattened)."""
        if not codes:
            raise refuse("codes", "hold at least one code", "none", "Encode some rows first.")
        offset, parts = 0, [codes[0].indptr[:1]]
        for code in codes:
            parts.append(code.indptr[1:] + offset)
            offset += int(code.indptr[-1])
        return Code(
            torch.cat(parts),
            torch.cat([code.indices for code in codes]),
            torch.cat([code.values for code in codes]),
            codes[0].n_blocks,
        )
