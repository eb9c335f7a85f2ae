"""What is known of held-out rows without asking a dictionary: the token's text, or the object on the patch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.store import ActivationStore, StoredSample

__all__ = ["Labelled", "labelled"]

HELD_OUT = ("test", "validation")
LEAST_ROWS, LEAST_GROUPS = 60, 6  # a label that is on less often, or on fewer documents or objects, is left out


@dataclass(frozen=True, eq=False)
class Labelled:
    """Held-out rows, which of them each label is on, and the document or object each comes from."""

    x: Float64[np.ndarray, "n d"]
    labels: dict[str, Bool[np.ndarray, " n"]]
    groups: Int64[np.ndarray, " n"]


def labelled(store: ActivationStore) -> Labelled:
    """Rows of the held-out splits and all labels that are on often enough."""
    samples = [store.sample(name) for split in HELD_OUT for name in store.samples(split)]
    number: dict[str, int] = {}
    groups = np.concatenate([np.full(len(s.rows), number.setdefault(s.group, len(number))) for s in samples])
    found: dict[str, list[np.ndarray]] = {}
    start = 0
    for sample in samples:
        for name, on in _of(sample):
            found.setdefault(name, []).append(start + np.flatnonzero(on))
        start += len(sample.rows)
    labels = {}
    for name, parts in sorted(found.items()):
        on = np.zeros(start, bool)
        on[np.concatenate(parts)] = True
        if on.sum() >= LEAST_ROWS and len(np.unique(groups[on])) >= LEAST_GROUPS:
            labels[name] = on
    return Labelled(np.concatenate([s.rows.double().numpy() for s in samples]), labels, groups)


def _of(sample: StoredSample) -> Iterator[tuple[str, Bool[np.ndarray, " n"]]]:
    place = sample.positions.numpy()
    if sample.pieces is not None:
        yield from _token_labels([sample.pieces[int(p)] for p in place])
    elif sample.mask is not None and sample.target is not None:
        # a patch shows the object when it covers more than half of it; "a/b/c" is an a, an a/b and an a/b/c
        on, path = sample.mask.numpy()[place] > 0.5, str(sample.target["label"]).split("/")
        for depth in range(len(path) + 1):
            yield "/".join(["object", *path[:depth]]), on


def _token_labels(pieces: list[str]) -> Iterator[tuple[str, Bool[np.ndarray, " n"]]]:
    """First letter of a token that begins a word, that it does, that it is capitalised, and digits."""
    words = [p[1:] if p[:1] in (" ", "Ġ", "▁") else "" for p in pieces]
    words = [w if w.isalpha() and w.isascii() else "" for w in words]
    first = np.array([w[:1].lower() for w in words])
    yield "word", first != ""
    yield "capital", np.array([w[:1].isupper() for w in words], bool)
    yield "digit", np.array([p.strip(" Ġ▁").isdigit() for p in pieces], bool)
    for letter in ascii_lowercase:
        yield letter, first == letter
