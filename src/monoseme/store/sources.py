"""What can be harvested: sources of samples, and which split each sample belongs to, decided before a row exists.

A source lists its `entries` without decoding anything, and renders one on demand. Entries that share a `group` (copies
of one picture, composites of one cut-out) never lie on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, UInt8

from monoseme.core.errors import refuse
from monoseme.core.seeds import derive

__all__ = ["SPLITS", "Entry", "Sample", "Source", "assign_splits"]

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Entry:
    """A sample as it is known before it is rendered.

    Attributes
    ----------
    id
        Unique name.
    group
        Entries of one group share a split.
    split
        Set by sources that must split themselves (see `composites`); None leaves it to `harvest`.
    target
        Plain JSON values known of the sample, for example ``{"label": "mammals"}``.
    """

    id: str
    group: str
    split: str | None = None
    target: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Sample:
    """One picture.

    Attributes
    ----------
    id, group, target
        See `Entry`; an empty group means a group of its own.
    image
        (H, W, 3) uint8.
    mask
        (H, W) True where the object of the target is, if that is known.
    """

    id: str
    image: UInt8[np.ndarray, "H W 3"]
    target: Mapping[str, Any] | None = None
    group: str = ""
    mask: Bool[np.ndarray, "H W"] | None = None


@runtime_checkable
class Source(Protocol):
    """A sequence of samples that knows its entries beforehand."""

    @property
    def entries(self) -> Sequence[Entry]:
        """One entry a sample, in order."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> Any:
        """Render sample i; a pure function of i: a `Sample`, a tensor, a document's text, or a mapping of token ids."""
        ...


def assign_splits(groups: Sequence[str], split: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0) -> dict[str, str]:
    """Assign every group to a split: groups in the order of their hashes, cut at the shares asked for.

    A share above 0 gets at least one group while there are enough: the first goes to train, the second to test, the
    third to validation.

    Examples
    --------
    >>> sorted(assign_splits(["a", "b", "c"]).values())
    ['test', 'train', 'validation']
    >>> assign_splits(["a"])
    {'a': 'train'}
    """
    numbers = isinstance(split, (tuple, list)) and all(isinstance(share, (int, float)) for share in split)
    shares = [float(share) for share in split] if numbers else []
    if len(shares) != 3 or min(shares) < 0 or shares[0] == 0 or not abs(sum(shares) - 1) <= 1e-6:
        raise refuse(
            "split", "be three shares (train, validation, test) that add up to 1, train above 0", split,
            "For example (0.8, 0.1, 0.1).",
        )  # fmt: skip
    order = sorted(set(groups), key=lambda group: derive(seed, "split", group))
    n_held = {"test": shares[2], "validation": shares[1]}
    total, assigned = len(order), {}
    left = total - 1  # train keeps at least one
    for name, share in n_held.items():
        count = min(left, max(round(share * total), 1 if share > 0 else 0))
        for group in order[:count]:
            assigned[group] = name
        order, left = order[count:], left - count
    return {**assigned, **dict.fromkeys(order, "train")}
