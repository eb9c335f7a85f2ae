"""`Layout`: how many tokens each sample has, how they lie, and which of them are kept; known before a row exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models import TokenGrid
from monoseme.store.policy import TokenPolicy
from monoseme.store.windows import Windows

__all__ = ["Layout", "even_layout", "window_layout"]


@dataclass(frozen=True)
class Layout:
    """Tokens of every sample, in the order of harvest.

    Attributes
    ----------
    grids
        (height, width) of the sample's positions.
    seen
        Tokens the model gives for it, padding apart.
    special, outside
        How many of them are dropped for what they are, and for where they stand.
    leading
        Tokens in front that have no position: special ones dropped from a picture.
    left
        Whether padding comes first.
    """

    grids: Sequence[tuple[int, int]]
    seen: Int64[np.ndarray, " N"]
    special: Int64[np.ndarray, " N"]
    outside: Int64[np.ndarray, " N"]
    leading: int
    left: bool
    _same: Int[Tensor, " n"] | None
    _windows: tuple[Windows, Sequence[int]] | None

    @property
    def rows(self) -> Int64[np.ndarray, " N"]:
        """Rows of every sample, before any is dropped for its norm."""
        return self.seen - self.special - self.outside

    def kept(self, sample: int) -> Int[Tensor, " n"]:
        """Positions kept of a sample, in order."""
        if self._same is not None:
            return self._same
        assert self._windows is not None
        windows, order = self._windows
        return torch.from_numpy(np.flatnonzero(windows.keep(order[sample])))

    def offset(self, sample: int, width: int) -> int:
        """Column of position 0 in a batch of outputs `width` tokens wide."""
        return width - int(self.seen[sample]) if self.left else self.leading


def even_layout(samples: int, tokens: int, grid: TokenGrid | None, policy: TokenPolicy) -> Layout:
    """Layout of samples that all give `tokens` tokens: pictures of one size, tensors of one shape."""
    if grid is None or (grid.special and policy.special):
        leading, shape = 0, (1, tokens)
    else:
        leading, shape = grid.special, (grid.height, grid.width)
    n = tokens - leading
    start, stop = policy.positions or (0, None)
    kept = torch.arange(n)[start:stop]
    if not len(kept):
        raise refuse("positions", f"keep some of 0..{n - 1}", policy.positions, "Begin earlier.")
    special, outside = (np.full(samples, count) for count in (leading, n - len(kept)))
    return Layout([shape] * samples, np.full(samples, tokens), special, outside, leading, False, kept, None)


def window_layout(windows: Windows, order: Sequence[int], policy: TokenPolicy) -> Layout:
    """Layout of windows of text, harvested in this order."""
    place = np.asarray(order)
    seen = windows.lengths[place]
    grids = [(1, int(n)) for n in seen]
    left = policy.padding == "left"
    return Layout(grids, seen, windows.special[place], windows.outside[place], 0, left, None, (windows, order))
