"""Windows of a text's bytes as rows, kept as bytes: a corpus of half a gigabyte takes half a gigabyte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.rows import Batch, epoch_slices
from monoseme.core.seeds import generator
from monoseme.core.stats import Moments, moments

__all__ = ["ByteRows"]


class ByteRows:
    """Row i holds bytes i·w to (i + 1)·w, both included: w inputs, and w targets one further on (see `Task`).

    A row has 2w columns: the last byte of a row is the first of the next, and no byte is a target twice. What is left
    of the text at its end, less than a window, is dropped.

    Parameters
    ----------
    text
        The bytes.
    window
        w.
    """

    def __init__(self, text: bytes, window: int) -> None:
        if window < 1 or len(text) <= window:
            raise refuse("window", f"lie in 1..{len(text) - 1}, below the bytes of the text", window, "Lower it.")
        self._text, self.window = torch.from_numpy(np.frombuffer(text, np.uint8).copy()), window
        self._order: tuple[tuple[int, int], Tensor] | None = None
        self._moments: Moments | None = None

    @property
    def d_in(self) -> int:
        """Columns of a row: inputs and targets."""
        return 2 * self.window

    def __len__(self) -> int:
        return (len(self._text) - 1) // self.window

    @property
    def moments(self) -> Moments:
        """Moments of all rows, computed once."""
        if self._moments is None:
            nothing = torch.zeros(self.d_in, dtype=torch.float64)
            found = Moments(0, nothing, nothing)
            for batch in self.in_order(4096):
                found = found.merge(moments(batch.x))
            self._moments = found
        return self._moments

    def _rows(self, index: Tensor) -> Batch:
        at = index[:, None] * self.window + torch.arange(self.window + 1)
        bytes_ = self._text[at].float()
        return Batch(torch.cat([bytes_[:, :-1], bytes_[:, 1:]], 1), index, torch.zeros_like(index))

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """`size` shuffled windows; every epoch is one pass over all of them."""
        parts = []
        for epoch, start, stop in epoch_slices(step, size, len(self)):
            if self._order is None or self._order[0] != (seed, epoch):
                order = torch.randperm(len(self), generator=generator(seed, "shuffle", epoch))
                self._order = ((seed, epoch), order)
            parts.append(self._order[1][start:stop])
        return self._rows(torch.cat(parts))

    def in_order(self, size: int) -> Iterator[Batch]:
        """All windows once, as they follow one another."""
        for start in range(0, len(self), size):
            yield self._rows(torch.arange(start, min(start + size, len(self))))
