"""Active blocks of held-out rows, with where they fired: kept sparse, the only thing that grows with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.code import Code

__all__ = ["Entries"]


@dataclass(frozen=True, eq=False)
class Entries:
    """The code of a split, and the sample and position of every row.

    Attributes
    ----------
    code
        Codes of all rows, on CPU.
    row_sample, row_position
        (n,) index into `samples`, and index on that sample's grid.
    samples, grids
        Id and (height, width) of every sample.
    groups
        Number of the group of every sample: windows of a document, copies of a picture. What intervals resample.
    """

    code: Code
    row_sample: Int64[np.ndarray, " n"]
    row_position: Int64[np.ndarray, " n"]
    samples: Sequence[str]
    grids: Sequence[tuple[int, int]]
    groups: Int64[np.ndarray, " s"]

    @property
    def unit(self) -> str:
        """What intervals resample, in words."""
        return "samples" if len(np.unique(self.groups)) == len(self.samples) else "groups of samples"

    def by_group(self, per_sample: Float64[np.ndarray, "s q"]) -> Float64[np.ndarray, "g q"]:
        """Sums over the samples of every group."""
        _, of_sample = np.unique(self.groups, return_inverse=True)
        sums = np.zeros((of_sample.max() + 1, per_sample.shape[1]))
        np.add.at(sums, of_sample, per_sample)
        return sums

    @cached_property
    def values(self) -> Float64[np.ndarray, "nnz b"]:
        """z_g of every entry."""
        return self.code.values.double().numpy()

    @cached_property
    def presence(self) -> Float64[np.ndarray, " nnz"]:
        """‖z_g‖ of every entry."""
        return np.sqrt(np.square(self.values).sum(1))

    @cached_property
    def blocks(self) -> Int64[np.ndarray, " nnz"]:
        """The block of every entry."""
        return self.code.indices.long().numpy()

    @cached_property
    def rows(self) -> Int64[np.ndarray, " nnz"]:
        """The row of every entry."""
        return self.code.rows.numpy()

    @cached_property
    def owners(self) -> Int64[np.ndarray, " nnz"]:
        """The sample of every entry."""
        return self.row_sample[self.rows]

    @cached_property
    def by_block(self) -> list[Int64[np.ndarray, " _"]]:
        """Entries of every block, in order of rows."""
        ends = np.cumsum(np.bincount(self.blocks, minlength=self.code.n_blocks))[:-1]
        return np.split(np.argsort(self.blocks, kind="stable"), ends)
