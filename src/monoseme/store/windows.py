"""`Windows`: documents cut into windows of token ids, every window one sample. Splits are by document."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int32, Int64

from monoseme.core.errors import UserError, refuse
from monoseme.models import HookedModel, Tokenizer
from monoseme.store.policy import TokenPolicy
from monoseme.store.sources import Entry, Source

__all__ = ["Window", "Windows", "as_windows"]

MISMATCH = "Open the model with the tokenizer it was trained with."


@dataclass(frozen=True)
class Window:
    """Token ids of one sample of text, no padding among them."""

    ids: Int32[np.ndarray, " T"]


class Windows:
    """A source of windows. All ids are in memory, so that every count is known before the model runs.

    Parameters
    ----------
    entries
        One a window; its group is its document.
    ids
        Ids of every window.
    tokenizer
        Says which ids are special and how they show; None when ids came without one.
    policy
        Which tokens become rows. A window without any is left out and counted.
    documents, empty
        How many texts came, and how many of them held no token.

    Attributes
    ----------
    lengths, special, outside
        (n,) tokens of every window; how many are dropped as special; how many for their position.
    without_rows
        Windows left out because the policy keeps none of their tokens.
    digest
        SHA-256 of all ids and where windows end.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        ids: Sequence[Int32[np.ndarray, " _"]],
        tokenizer: Tokenizer | None,
        policy: TokenPolicy,
        documents: int,
        empty: int,
    ) -> None:
        self.tokenizer, self.documents, self.empty = tokenizer, documents, empty
        lengths = np.array([len(window) for window in ids], dtype=np.int64)
        flat, start = np.concatenate(ids), np.repeat(lengths.cumsum() - lengths, lengths)
        special, inside = self._dropped(flat, np.arange(len(flat)) - start, policy)
        first = lengths.cumsum() - lengths
        n_special = np.add.reduceat(special, first, dtype=np.int64)
        kept = np.add.reduceat(inside & ~special, first, dtype=np.int64)
        some = kept > 0
        if not some.any():
            got = f"{len(ids)} windows in which {policy} keeps none"
            raise refuse("tokens", "keep some token", got, "Begin earlier, or keep special tokens.")
        whole = np.repeat(some, lengths)
        self._ids, self._keep = flat[whole], (inside & ~special)[whole]
        self.entries = [entry for entry, here in zip(entries, some.tolist(), strict=True) if here]
        self.without_rows = int((~some).sum())
        self.lengths, self.special = lengths[some], n_special[some]
        self.outside = self.lengths - self.special - kept[some]
        self._ends = self.lengths.cumsum()
        self.digest = hashlib.sha256(self._ids.tobytes() + self._ends.tobytes()).hexdigest()

    def _dropped(
        self, ids: Int32[np.ndarray, " n"], position: Int64[np.ndarray, " n"], policy: TokenPolicy
    ) -> tuple[Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Whether each token is dropped as special, and whether its position is asked for."""
        special = np.zeros(len(ids), dtype=bool)
        if self.tokenizer is not None and not policy.special:
            marks = {*self.tokenizer.special, *(() if self.tokenizer.bos is None else (self.tokenizer.bos,))}
            special = np.isin(ids, sorted(marks))
        start, stop = policy.positions or (0, None)
        return special, (position >= start) & (position < (len(ids) if stop is None else stop))

    def __len__(self) -> int:
        return len(self.entries)

    def _slice(self, i: int) -> slice:
        return slice(int(self._ends[i] - self.lengths[i]), int(self._ends[i]))

    def __getitem__(self, i: int) -> Window:
        return Window(self._ids[self._slice(i)])

    def keep(self, i: int) -> Bool[np.ndarray, " T"]:
        """Which tokens of window i become rows."""
        return self._keep[self._slice(i)]

    @property
    def highest(self) -> int:
        """The largest id."""
        return int(self._ids.max())

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest says of the text."""
        names = ("documents", "empty", "without_rows")
        return {name: getattr(self, name) for name in names} | {"windows": len(self)}


def as_windows(model: HookedModel, source: Source, policy: TokenPolicy) -> Source:
    """Tokenise a source of documents, strings or mappings with "input_ids"; return any other source as it is.

    Raises
    ------
    UserError
        No tokenizer; a context the model cannot take; ids beyond the vocabulary; nothing but empty documents.
    """
    first = source[0]
    if isinstance(first, str):
        parts = _cut(model, source, policy)
    elif isinstance(first, Mapping):
        parts = _given(model, source)
    else:
        return source
    entries, windows, filled = [], [], set()
    for document, entry, ids in parts:
        entries.append(entry)
        windows.append(ids)
        filled.add(document)
    if not windows:
        got = f"{len(source)} samples, all of them empty or padding"
        raise refuse("data", "hold at least one token of text", got, "Check what was read.")
    return Windows(entries, windows, model.facts.tokenizer, policy, len(source), len(source) - len(filled))


def _cut(
    model: HookedModel, source: Source, policy: TokenPolicy
) -> Iterator[tuple[int, Entry, Int32[np.ndarray, " _"]]]:
    """Windows of `context` tokens, each beginning with the begin-of-document mark if there is one."""
    tokenizer = model.facts.tokenizer
    if tokenizer is None:
        raise refuse(
            "model", "have a tokenizer to read text", model.name,
            "Open a language model, or build HookedModel(module, ModelFacts(name, tokenizer=...)).",
        )  # fmt: skip
    mark = [] if tokenizer.bos is None else [tokenizer.bos]
    if policy.context <= len(mark):
        raise refuse("context", "leave room behind the begin-of-document mark", policy.context, "128 is usual.")
    _check_length(model, policy.context)
    size, first_of = policy.context - len(mark), {}
    for i, entry in enumerate(source.entries):
        text = source[i]
        try:
            content = hashlib.sha256(text.encode()).digest()
        except UnicodeEncodeError as error:
            raise refuse("data", "hold valid Unicode", f"{error} in {entry.id!r}", "Clean the text.") from None
        # copies of one document never lie on both sides of a split
        group = first_of.setdefault(content, entry.group)
        ids = _checked(tokenizer.encode(text), tokenizer, entry.id) if text.strip() else np.zeros(0, np.int32)
        for start in range(0, len(ids), size):
            window = np.concatenate([np.array(mark, np.int32), ids[start : start + size]])
            yield i, Entry(f"{entry.id}@{start}", group, entry.split, entry.target), window


def _given(model: HookedModel, source: Source) -> Iterator[tuple[int, Entry, Int32[np.ndarray, " _"]]]:
    """Ids as they came, one window a sample, without what the attention mask calls padding."""
    for i, entry in enumerate(source.entries):
        item: Any = source[i]
        if not isinstance(item, Mapping) or "input_ids" not in item:
            raise refuse("data", "hold input_ids in every sample", f"none in {entry.id!r}", "Do not mix kinds of data.")
        try:
            ids = np.asarray(item["input_ids"])
            mask = np.asarray(item.get("attention_mask", np.ones_like(ids)))
        except ValueError:  # rows of unequal length
            raise refuse(
                "data", "hold input_ids (T,) of integers", f"a ragged list in {entry.id!r}", "Mend it."
            ) from None
        if ids.ndim != 1 or ids.shape != mask.shape or ids.dtype.kind not in "iu" or not np.isin(mask, (0, 1)).all():
            got = f"{ids.dtype} {ids.shape} and a mask of {mask.dtype} {mask.shape} in {entry.id!r}"
            raise refuse("data", "hold input_ids (T,) of integers and attention_mask (T,) of 0 and 1", got, "See docs.")
        ids = _checked(ids[mask.astype(bool)], model.facts.tokenizer, entry.id)
        _check_length(model, len(ids))
        if len(ids):
            yield i, entry, ids


def _check_length(model: HookedModel, tokens: int) -> None:
    most = model.facts.context
    if most is not None and tokens > most:
        raise refuse("context", f"be at most {most}, the context of {model.name}", tokens, "Lower it.")


def _checked(ids: Any, tokenizer: Tokenizer | None, document: str) -> Int32[np.ndarray, " T"]:
    found = np.asarray(ids, dtype=np.int64)
    top = np.iinfo(np.int32).max if tokenizer is None else tokenizer.vocabulary - 1
    wrong = found[(found < 0) | (found > top)]
    if len(wrong):
        raise mismatch(int(wrong[0]), f"0..{top}, the tokenizer's vocabulary", f" in {document!r}")
    return found.astype(np.int32)


def mismatch(token: int, known: str, where: str = "") -> UserError:
    """Ids that the model cannot know: the tokenizer is another model's."""
    return refuse("data", f"give token ids in {known}", f"id {token}{where} (tokenizer mismatch)", MISMATCH)
