"""`as_source`: whatever can be harvested, as a `Source`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from monoseme.core.errors import refuse
from monoseme.store.sources import Entry, Sample, Source
from monoseme.store.texts import Document, Texts

__all__ = ["as_source"]


@dataclass(frozen=True)
class _Plain:
    """Any indexable of samples, tensors, or mappings with token ids."""

    data: Any
    entries: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        return self.data[i]


def as_source(data: Any) -> Source:
    """Return a `Source`. Tensors become samples "0", "1", ...; a list of `Sample` is read once for its entries.

    Strings, (id, text) pairs, `Document` and mappings with "text" become `Texts`. Mappings with "input_ids" are token
    ids already, and so is one mapping of whole batches, as tokenizers return it.
    """
    source = data if isinstance(data, Source) else _wrapped(data)
    if len(source) == 0:
        raise refuse("data", "hold at least one sample", "none", "Check the folder or the list.")
    for entry in source.entries:
        _check_entry(entry)
    ids = [entry.id for entry in source.entries]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise refuse("data", "give every sample its own id", f"{twice!r} twice", "Rename one of them.")
    return source


def _wrapped(data: Any) -> Source:
    if isinstance(data, (str, bytes)):
        got, fix = (
            type(data).__name__,
            "A folder: PictureFolder(path), or TextFolder(path). One text: put it in a list.",
        )
        raise refuse("data", "hold samples or tensors", got, fix)
    if isinstance(data, Mapping) and "input_ids" in data:
        names = [name for name in ("input_ids", "attention_mask") if name in data]
        data = [dict(zip(names, row, strict=True)) for row in zip(*(data[name] for name in names), strict=True)]
    if isinstance(data, Mapping) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise refuse("data", "be a sequence of samples or tensors", type(data).__name__, "Put them in a list.")
    first = data[0] if len(data) else None
    if isinstance(first, Sample):
        return _Plain(data, [Entry(s.id, s.group or s.id, None, s.target) for s in data])
    if isinstance(first, (str, tuple, Document)) or (isinstance(first, Mapping) and "input_ids" not in first):
        return Texts(data)
    return _Plain(data, [Entry(str(i), str(i)) for i in range(len(data))])


def _check_entry(entry: Entry) -> None:
    """Refuse, before anything is run, what the table of samples could not hold."""
    try:
        if not isinstance(entry.id, str):
            raise TypeError(f"an id of type {type(entry.id).__name__}")
        json.dumps(entry.target if entry.target is None else dict(entry.target), allow_nan=False)
    except (TypeError, ValueError) as error:
        got = f"{error} in sample {entry.id!r}"
        raise refuse("data", "have texts as ids and plain JSON values as targets", got, "Convert them.") from None
