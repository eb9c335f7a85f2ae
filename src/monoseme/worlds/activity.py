"""Which parts act on a row: the laws of support that worlds are made of, with their pair probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from monoseme.core.support import Support

__all__ = ["Activity", "Exactly", "Exclusive", "Independent", "Nested"]

CHUNK = 1 << 22  # uniform numbers drawn at once


@runtime_checkable
class Activity(Protocol):
    """A law of supports over M parts; rows are independent of one another."""

    def draw(self, stream: np.random.Generator, n: int) -> Support:
        """Active parts of `n` rows."""
        ...

    def pairs(self) -> Float64[np.ndarray, "M M"]:
        """P(i and j are both active), exactly; the diagonal is P(i is active)."""
        ...


@dataclass(frozen=True)
class Exactly:
    """`k` of `size` parts on every row, uniformly without replacement."""

    size: int
    k: int

    def draw(self, stream: np.random.Generator, n: int) -> Support:
        """Draw k-subsets (Floyd's algorithm: k draws a row, no n × size table)."""
        chosen = np.empty((n, self.k), dtype=np.int64)
        for step, top in enumerate(range(self.size - self.k, self.size)):
            draw = stream.integers(0, top + 1, n)
            taken = (chosen[:, :step] == draw[:, None]).any(1)
            chosen[:, step] = np.where(taken, top, draw)
        flat = torch.from_numpy(np.sort(chosen, axis=1).flatten()).to(torch.int32)
        return Support(torch.arange(n + 1) * self.k, flat, self.size)

    def pairs(self) -> Float64[np.ndarray, "M M"]:
        """Return k/M on the diagonal, k(k − 1)/(M(M − 1)) beside it."""
        beside = self.k * (self.k - 1) / max(self.size * (self.size - 1), 1)
        both = np.full((self.size, self.size), beside)
        np.fill_diagonal(both, self.k / self.size)
        return both


@dataclass(frozen=True, eq=False)
class Independent:
    """Every part is on with its own probability, whatever the others do."""

    p: Float64[np.ndarray, " M"]

    def draw(self, stream: np.random.Generator, n: int) -> Support:
        """Draw one uniform number a row and part."""
        return _by_chunks(stream, n, len(self.p), len(self.p), lambda u: u < self.p)

    def pairs(self) -> Float64[np.ndarray, "M M"]:
        """Return p_i p_j."""
        both = np.outer(self.p, self.p)
        np.fill_diagonal(both, self.p)
        return both


@dataclass(frozen=True, eq=False)
class Exclusive:
    """Groups of parts, of which at most one is on at a time; groups are independent.

    Attributes
    ----------
    p
        P(part is on); they sum to at most 1 in a group. What is missing from 1 is P(no member is on).
    group
        The group of each part; members of one group stand together.
    """

    p: Float64[np.ndarray, " M"]
    group: Int64[np.ndarray, " M"]

    def draw(self, stream: np.random.Generator, n: int) -> Support:
        """Draw one uniform number a row and group; every member has its own interval of it."""
        upper = np.concatenate([np.cumsum(self.p[self.group == g]) for g in np.unique(self.group)])
        lower = upper - self.p
        lower[np.flatnonzero(np.diff(self.group, prepend=-1))] = 0.0
        last = np.flatnonzero(np.diff(self.group, append=-1))
        upper[last] = np.where(upper[last] > 1 - 1e-9, 1.0, upper[last])  # exhaustive groups leave no gap of rounding

        def choose(u: Float64[np.ndarray, "n g"]) -> Bool[np.ndarray, "n M"]:
            own = u[:, self.group]
            return (own >= lower) & (own < upper)

        return _by_chunks(stream, n, int(self.group.max()) + 1, len(self.p), choose)

    def pairs(self) -> Float64[np.ndarray, "M M"]:
        """Return p_i p_j across groups and 0 inside one."""
        both = np.outer(self.p, self.p) * (self.group[:, None] != self.group[None, :])
        np.fill_diagonal(both, self.p)
        return both


@dataclass(frozen=True, eq=False)
class Nested:
    """A forest: whether a part is on depends on its parent alone.

    Attributes
    ----------
    parent
        Index of each part's parent, −1 for roots. Parents come before their children, and all children of one part
        stand together.
    on, off
        P(part is on | its parent is on), and | its parent is off. Of a root, `on` is its probability and `off` unused.
        A child with `off` 0 is on only when its parent is.
    exclusive
        Whether at most one child of a part is on at a time; roots stay independent. Else children of one part are
        independent of one another, given it.
    """

    parent: Int64[np.ndarray, " M"]
    on: Float64[np.ndarray, " M"]
    off: Float64[np.ndarray, " M"]
    exclusive: bool = False
    _before: Float64[np.ndarray, "2 M"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # with exclusive siblings a child's interval of the shared uniform number begins where its elder's ends
        before = np.zeros((2, len(self.parent)))
        for i in range(1, len(self.parent)):
            if self.exclusive and self.parent[i] >= 0 and self.parent[i] == self.parent[i - 1]:
                before[:, i] = before[0, i - 1] + self.on[i - 1], before[1, i - 1] + self.off[i - 1]
        object.__setattr__(self, "_before", before)

    def draw(self, stream: np.random.Generator, n: int) -> Support:
        """Draw from the roots down."""

        def choose(u: Float64[np.ndarray, "n M"]) -> Bool[np.ndarray, "n M"]:
            mask = np.zeros(u.shape, dtype=bool)
            for i, parent in enumerate(self.parent):
                if parent < 0:
                    mask[:, i] = u[:, i] < self.on[i]
                    continue
                first = int(np.argmax(self.parent == parent)) if self.exclusive else i
                above = mask[:, parent]
                low = np.where(above, self._before[0, i], self._before[1, i])
                high = low + np.where(above, self.on[i], self.off[i])
                mask[:, i] = (u[:, first] >= low) & (u[:, first] < high)
            return mask

        return _by_chunks(stream, n, len(self.parent), len(self.parent), choose)

    def pairs(self) -> Float64[np.ndarray, "M M"]:
        """Go down the forest: given its parent, a part is independent of everything that stands before it.

        Exclusive siblings are the exception: they are never on together.
        """
        size = len(self.parent)
        both = np.zeros((size, size))
        for i, parent in enumerate(self.parent):
            earlier = np.diagonal(both)[:i].copy()
            if parent < 0:
                own, row = self.on[i], self.on[i] * earlier
            else:
                above = both[parent, :i]
                own = self.on[i] * both[parent, parent] + self.off[i] * (1 - both[parent, parent])
                row = self.on[i] * above + self.off[i] * (earlier - above)
                if self.exclusive:
                    row[self.parent[:i] == parent] = 0.0
            both[i, :i] = both[:i, i] = row
            both[i, i] = own
        return both


def _by_chunks(
    stream: np.random.Generator, n: int, width: int, size: int, choose: Callable[[np.ndarray], np.ndarray]
) -> Support:
    """Draw `width` uniform numbers a row, a few rows at a time, and compress what `choose` makes of them."""
    step = max(1, CHUNK // max(width, size))
    parts = [
        Support.from_mask(torch.from_numpy(choose(stream.random((min(step, n - start), width)))))
        for start in range(0, n, step)
    ]
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat([part.indptr.diff() for part in parts]).cumsum(0)])
    return Support(indptr, torch.cat([part.indices for part in parts]), size)
