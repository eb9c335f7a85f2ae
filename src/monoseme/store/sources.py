"""What can be harvested: sources of samples, and which split each sample belongs to, decided before a row exists.

A source lists its `entries` without decoding anything, and renders one on demand. Entries that share a `group` (copies
of one picture, composites of one cut-out) never lie on both sides of a split.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, UInt8
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import derive

__all__ = ["SPLITS", "Entry", "Sample", "Source", "as_source", "assign_splits"]

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

    def __getitem__(self, i: int) -> Sample | Tensor:
        """Render sample i; a pure function of i."""
        ...


@dataclass(frozen=True)
class _Plain:
    """Any indexable of samples or tensors."""

    data: Any
    entries: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        return self.data[i]


def as_source(data: Any) -> Source:
    """Return a `Source`. Tensors become samples "0", "1", ...; a list of `Sample` is read once for its entries."""
    if isinstance(data, Source):
        source = data
    else:
        if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise refuse("data", "be a sequence of samples or tensors", type(data).__name__, "Put them in a list.")
        if len(data) and isinstance(data[0], Sample):
            entries = [Entry(s.id, s.group or s.id, None, s.target) for s in data]
        else:
            entries = [Entry(str(i), str(i)) for i in range(len(data))]
        source = _Plain(data, entries)
    if len(source) == 0:
        raise refuse("data", "hold at least one sample", "none", "Check the folder or the list.")
    for entry in source.entries:
        _check_entry(entry)
    ids = [entry.id for entry in source.entries]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise refuse("data", "give every sample its own id", f"{twice!r} twice", "Rename one of them.")
    return source


def _check_entry(entry: Entry) -> None:
    """Refuse, before anything is run, what the table of samples could not hold."""
    try:
        if not isinstance(entry.id, str):
            raise TypeError(f"an id of type {type(entry.id).__name__}")
        json.dumps(entry.target if entry.target is None else dict(entry.target), allow_nan=False)
    except (TypeError, ValueError) as error:
        got = f"{error} in sample {entry.id!r}"
        raise refuse("data", "have texts as ids and plain JSON values as targets", got, "Convert them.") from None


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
    shares = [float(share) for share in split]
    if len(shares) != 3 or min(shares) < 0 or shares[0] == 0 or not abs(sum(shares) - 1) <= 1e-6:
        raise refuse(
            "split", "be three shares (train, validation, test) that add up to 1, train above 0", tuple(split),
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
