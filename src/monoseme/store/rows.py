"""`ShardRows`: the rows of one split on disk, as a `RowSource`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.rows import Batch, epoch_slices
from monoseme.core.seeds import generator
from monoseme.core.stats import Moments
from monoseme.store.sealed import Shards

__all__ = ["ShardRows"]


class ShardRows:
    """Rows of one split, float32 whatever they are stored in.

    An epoch is a permutation of the shards and, inside each, of its rows; training rows were shuffled across samples
    when they were written, so a batch mixes pictures though it reads one or two files.

    Parameters
    ----------
    shards
        All shards of the store.
    mine
        Which of them belong to this split, in order.
    d_in, moments
        Width; statistics of these rows.
    shuffled
        Whether rows lie in random order on disk (train) or in order of sample and position.
    """

    def __init__(self, shards: Shards, mine: Sequence[int], d_in: int, moments: Moments, shuffled: bool) -> None:
        self._shards, self._mine, self._shuffled = shards, list(mine), shuffled
        self._counts = torch.tensor([shards.shards[i]["rows"] for i in mine])
        self._ends = self._counts.cumsum(0)
        self._d_in, self._moments = d_in, moments
        self._plan: dict[tuple[int, int, int], Tensor] = {}
        self._sorted: Tensor | None = None

    @property
    def d_in(self) -> int:
        """Width of a row."""
        return self._d_in

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def moments(self) -> Moments:
        """Count, mean and centred squares, as computed when the store was made."""
        return self._moments

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """`size` shuffled rows; a batch may straddle shards and epochs, so no row is ever dropped."""
        parts = epoch_slices(step, size, len(self))
        return self.take(torch.cat([self.epoch_rows(seed, epoch, start, stop) for epoch, start, stop in parts]))

    def epoch_rows(self, seed: int, epoch: int, start: int, stop: int) -> Int[Tensor, " n"]:
        """Row numbers (places on disk) of places start:stop of an epoch."""
        shards = self._permutation(seed, epoch, -1, len(self._mine))
        ends = self._counts[shards].cumsum(0)
        parts = []
        while start < stop:
            k = int(torch.searchsorted(ends, start, right=True))
            shard, count = int(shards[k]), int(self._counts[shards[k]])
            begin = int(ends[k]) - count
            inside = self._permutation(seed, epoch, shard, count)[start - begin : stop - begin]
            parts.append(inside + (int(self._ends[shard]) - count))
            start += len(inside)
        return torch.cat(parts)

    def _permutation(self, seed: int, epoch: int, shard: int, size: int) -> Int[Tensor, " size"]:
        key = (seed, epoch, shard)
        if key not in self._plan:
            if len(self._plan) > 3:  # the shard list and two shards are all that one batch needs
                self._plan.clear()
            self._plan[key] = torch.randperm(size, generator=generator(seed, "shuffle", epoch, shard))
        return self._plan[key]

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows once, in order of sample and position."""
        for start in range(0, len(self), size):
            yield self.take(self.ordered(start, min(start + size, len(self))))

    def ordered(self, start: int, stop: int) -> Int[Tensor, " n"]:
        """Row numbers of places start:stop in the order of sample and position."""
        if not self._shuffled:
            return torch.arange(start, stop)
        if self._sorted is None:
            keys = [torch.cat([self._shards[i][name] for i in self._mine]).numpy() for name in ("position", "sample")]
            self._sorted = torch.from_numpy(np.lexsort(keys))
        return self._sorted[start:stop]

    def take(self, rows: Int[Tensor, " n"]) -> Batch:
        """Rows by number, in the order asked for."""
        shard = torch.searchsorted(self._ends, rows, right=True)
        x = torch.empty(len(rows), self._d_in)
        sample, position = (torch.empty(len(rows), dtype=torch.int64) for _ in range(2))
        for k in shard.unique().tolist():
            tensors, here = self._shards[self._mine[k]], (shard == k).nonzero().squeeze(1)
            inside = rows[here] - (self._ends[k] - self._counts[k])
            x[here] = self._floats(tensors["x"], inside)
            sample[here], position[here] = tensors["sample"][inside].long(), tensors["position"][inside].long()
        return Batch(x, sample, position)

    def positions(self, start: int, stop: int) -> Int[Tensor, " n"]:
        """Positions of places start:stop in the order of sample and position; no row is read."""
        rows = self.ordered(start, stop)
        shard, position = torch.searchsorted(self._ends, rows, right=True), torch.empty(len(rows), dtype=torch.int64)
        for k in shard.unique().tolist():
            here = (shard == k).nonzero().squeeze(1)
            inside = rows[here] - (self._ends[k] - self._counts[k])
            position[here] = self._shards[self._mine[k]]["position"][inside].long()
        return position

    @staticmethod
    def _floats(x: Tensor, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        return x[rows].float()
