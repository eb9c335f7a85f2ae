"""What the command line can harvest, by name: a folder of pictures, the demonstration's composites, or the wheels'."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from monoseme.core.errors import refuse
from monoseme.store import ActivationStore, Entry, PictureFolder, Sample, Source, demo_pictures, wheel_pictures

__all__ = ["Drawn", "draw", "named", "spliced_source", "thinned"]

WHEELS, DEMO = "wheels", "demo:"


def named(data: str, size: int, seed: int = 0) -> Source:
    """Pictures behind ``FOLDER``, ``demo:FOLDER`` or ``wheels``."""
    if data == WHEELS:
        return wheel_pictures(size)
    if data.startswith(DEMO):
        return demo_pictures(data.removeprefix(DEMO), size, seed)
    return PictureFolder(data, size)


def thinned(source: Source, limit: int | None) -> Source:
    """At most `limit` samples, spread evenly over each of the source's own splits; of each split at least one."""
    if limit is not None and limit < 1:
        raise refuse("limit", "be at least 1", limit, "Leave it out to take every picture.")
    if limit is None or limit >= len(source):
        return source
    by_split: dict[str | None, list[int]] = {}
    for i, entry in enumerate(source.entries):
        by_split.setdefault(entry.split, []).append(i)
    chosen: list[int] = []
    for places in by_split.values():
        n = max(1, limit * len(places) // len(source))
        chosen += [places[j * len(places) // n] for j in range(n)]
    return Part(source, sorted(chosen))


class Part:
    """Some samples of a source, or some of its documents."""

    def __init__(self, source: Source, places: Sequence[int]) -> None:
        self.source, self.places = source, places
        self.entries: Sequence[Entry] = [source.entries[i] for i in places]
        self.skipped = list(getattr(source, "skipped", []))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Any:
        return self.source[self.places[i]]


class Drawn:
    """Pictures rendered once and kept, because two models are to see the same ones.

    Attributes
    ----------
    distinct
        How many of the pictures differ in their pixels.
    """

    def __init__(self, source: Source, samples: Sequence[Sample]) -> None:
        self.entries, self.samples = source.entries, samples
        self.distinct = len({hashlib.sha256(sample.image.tobytes()).digest() for sample in samples})

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Sample:
        return self.samples[i]


def draw(source: Source) -> Drawn:
    """Render every picture of a source, on all cores."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:
        samples = list(pool.map(source.__getitem__, range(len(source))))
    return Drawn(source, samples)  # pyright: ignore[reportArgumentType]


def spliced_source(store: ActivationStore, data: str, size: int, seed: int) -> Any:
    """Open the pictures that a splice shows the model again; None for text, whose tokens the store keeps."""
    if data:
        return named(data, size, seed)
    if store.manifest["text"] is None:
        raise refuse("--data", "be given with --splice and a store of pictures", "none", "Name what was harvested.")
    return None
