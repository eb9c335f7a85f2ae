"""Rows of activations as a featurizer's training and evaluation see them, wherever they lie.

A `RowSource` is the only thing the training loop and the metrics know about data. `ArrayRows` is the one in memory; the
store has the one on disk. Shuffled reading is a pure function of (seed, step), so a resumed run sees the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator
from monoseme.core.stats import Moments, moments

__all__ = ["ArrayRows", "Batch", "DrawnRows", "RowSource", "as_rows", "as_tensor", "epoch_slices"]

FORMS = "Lists: torch.as_tensor(...). Stores: ms.fit and ms.evaluate take ActivationStore.open(path)."


@dataclass(frozen=True)
class Batch:
    """Some rows, each traceable to a sample (picture, document) and a position (token) in it."""

    x: Float[Tensor, "n d"]
    sample: Int[Tensor, " n"]
    position: Int[Tensor, " n"]


@runtime_checkable
class RowSource(Protocol):
    """Rows of one split."""

    @property
    def d_in(self) -> int:
        """Width of a row."""
        ...

    def __len__(self) -> int:
        """Number of rows."""
        ...

    @property
    def moments(self) -> Moments:
        """Count, mean and centred squares of these rows."""
        ...

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """`size` shuffled rows; a pure function of (step, size, seed). Every epoch is one pass over all rows."""
        ...

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows once, in order of sample and position, `size` at a time; the last batch may be shorter."""
        ...


def epoch_slices(step: int, size: int, n: int) -> Iterator[tuple[int, int, int]]:
    """Which places of which shuffled epochs of n rows make batch `step`: (epoch, start, stop), one or two of them.

    Epochs follow one another without a gap, so no row is ever dropped.

    Examples
    --------
    >>> list(epoch_slices(step=1, size=4, n=6))
    [(0, 4, 6), (1, 0, 2)]
    """
    if not 0 < size <= n:
        raise refuse("batch_size", f"lie in 1..{n}, the number of rows", size, "Lower it, or bring more rows.")
    first, last = step * size, (step + 1) * size
    while first < last:
        epoch, start = divmod(first, n)
        stop = min(start + last - first, n)
        yield epoch, start, stop
        first += stop - start


class ArrayRows:
    """Rows in memory. Row i is sample i at position 0 unless `sample` says otherwise.

    Parameters
    ----------
    x
        (n, d) floating-point tensor or array; integers are refused, a leading batch shape is flattened.
    sample
        (n,) sample of every row, when rows come several to a sample.
    """

    def __init__(self, x: Tensor | np.ndarray, sample: Int[Tensor, " n"] | None = None) -> None:
        tensor = as_tensor(x)
        if not tensor.is_floating_point():
            raise refuse("data", "hold floating-point rows", tensor.dtype, "Convert it with .float().")
        if tensor.ndim < 2 or tensor.numel() == 0:
            raise refuse(
                "data", "hold at least one row, as (n, d_in) or (..., d_in)", tuple(tensor.shape), "Harvest some first."
            )
        self.x = tensor.reshape(-1, tensor.shape[-1])
        self._sample = torch.arange(len(self.x)) if sample is None else sample
        self._moments: Moments | None = None
        self._order: tuple[tuple[int, int], Tensor] | None = None

    @property
    def d_in(self) -> int:
        """Width of a row."""
        return self.x.shape[1]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def moments(self) -> Moments:
        """Moments of all rows, computed once."""
        if self._moments is None:
            self._moments = moments(self.x)
        return self._moments

    def _permutation(self, seed: int, epoch: int) -> Tensor:
        if self._order is None or self._order[0] != (seed, epoch):
            order = torch.randperm(len(self), generator=generator(seed, "shuffle", epoch))
            self._order = ((seed, epoch), order)
        return self._order[1]

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Shuffled rows; a batch may straddle two epochs, so no row is ever dropped."""
        parts = epoch_slices(step, size, len(self))
        index = torch.cat([self._permutation(seed, epoch)[start:stop] for epoch, start, stop in parts])
        return Batch(self.x[index], self._sample[index], torch.zeros_like(index))

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows once, in order."""
        for start in range(0, len(self), size):
            index = slice(start, start + size)
            sample = self._sample[index]
            yield Batch(self.x[index], sample, torch.zeros_like(sample))


class DrawnRows(ArrayRows):
    """Rows in memory, every batch drawn with replacement.

    Against whole epochs (`ArrayRows`), how often a row was seen varies, with variance nearly the mean; the expected
    gradient of a step is the same.
    """

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Independent uniform draws; a pure function of (step, size, seed)."""
        index = torch.randint(len(self), (size,), generator=generator(seed, "draw", step))
        return Batch(self.x[index], self._sample[index], torch.zeros_like(index))


def as_rows(data: RowSource | Tensor | np.ndarray, argument: str = "data") -> RowSource:
    """Return a `RowSource`: arrays are wrapped, sources pass through, anything else is refused."""
    if isinstance(data, (Tensor, np.ndarray)):
        return ArrayRows(data)
    if not hasattr(data, "in_order"):
        raise refuse(argument, "be a store, rows in memory, or a RowSource", type(data).__name__, FORMS)
    return data


def as_tensor(x: Tensor | np.ndarray, argument: str = "data") -> Tensor:
    """Return a tensor on the same memory where torch can read it so, and on a copy where it cannot."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, np.ndarray):
        raise refuse(argument, "be a tensor or an array", type(x).__name__, FORMS)
    if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise refuse(argument, "hold floating-point rows", x.dtype, "Convert it with .astype('float32').")
    if not x.dtype.isnative or min(x.strides, default=0) < 0:
        x = x.astype(x.dtype.newbyteorder("="), order="C")
    with warnings.catch_warnings():
        # rows are only read; a memory map of a large file must not be copied for that
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.as_tensor(x)
