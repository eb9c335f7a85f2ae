"""`ActivationStore`: what `harvest` wrote, open for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monoseme.core.errors import closest, refuse
from monoseme.core.rows import Batch
from monoseme.core.stats import Moments
from monoseme.store.heldtext import TEXT, HeldText, HeldWindow
from monoseme.store.manifest import read_manifest
from monoseme.store.remote import Remote, is_url
from monoseme.store.rows import ShardRows
from monoseme.store.sealed import Shards
from monoseme.store.sources import SPLITS
from monoseme.store.thumbnails import mask_path, read_mask, thumbnail_path

__all__ = ["ActivationStore", "StoredSample"]


@dataclass(frozen=True)
class StoredSample:
    """One sample of a store.

    Attributes
    ----------
    id, split, target
        As the source gave them.
    rows
        (n, d_in) activations in token order, float32: one for every token that was kept.
    positions
        (n,) where those tokens stand on the grid, counted row by row.
    grid
        (height, width) of the tokens; (1, T) when they are not a picture's.
    thumbnail
        Picture file of a held-out sample, if it has one.
    mask
        (height · width,) share of each token that the target's object covers, for held-out samples that know it.
    pieces
        What each of the T tokens of a held-out text shows as; None for pictures, and for ids without a tokenizer.
    input_ids
        (T,) token ids of a held-out text.
    group
        Samples of one group (copies of a picture, windows of a document) share a split.
    """

    id: str
    split: str
    target: Mapping[str, Any] | None
    rows: Float[Tensor, "n d"]
    positions: Int64[Tensor, " n"]
    grid: tuple[int, int]
    thumbnail: Path | None
    mask: Float[Tensor, " T"] | None
    pieces: tuple[str, ...] | None = None
    input_ids: Int64[Tensor, " T"] | None = None
    group: str = ""


class ActivationStore:
    """Rows of activations by split, traceable to samples. Read with `open`; written by `harvest` only.

    ``len(store)`` and ``store[i]`` speak of the test split: row i in order of sample and position.

    Attributes
    ----------
    path
        Folder of the store; of one at a URL, the local copy of what was read so far.
    url
        Where the store is, if it is at a URL.
    manifest
        All that is known of it: model and revision, hook, token policy, dtype, rows, checksums, norms, versions.
    ids
        Id of every sample; `Batch.sample` counts in this list.
    """

    def __init__(
        self, path: Path, manifest: dict[str, Any], samples: list[dict[str, Any]], remote: Remote | None = None
    ) -> None:
        self.path, self.manifest = path, manifest
        self.url = None if remote is None else remote.url
        self.ids = [sample["id"] for sample in samples]
        self._samples, self._remote = samples, remote
        self._number = {name: i for i, name in enumerate(self.ids)}
        fetch = None if remote is None else (lambda name: remote.fetch(name, path))
        self._shards = Shards(path, manifest["shards"], fetch, self.url or "")
        self._rows: dict[str, ShardRows] = {}
        self._ends = np.cumsum([sample["rows"] for sample in samples])  # over all splits, one after another
        held = [sample["grid"][1] for sample in samples[manifest["samples"]["train"] :]]
        self._text = None if manifest.get("text") is None else HeldText(path / TEXT, held)
        self._pictures = remote is None or not any(manifest.get("pictures", {}).values())  # whether all are here

    @classmethod
    def open(cls, path: str | Path) -> ActivationStore:
        """Open a finished store, in a folder or at a URL. Shards are checked against their checksums on first reading.

        What is read from a URL is kept in the cache folder (``$MONOSEME_CACHE``, ``$XDG_CACHE_HOME/monoseme``).
        """
        if is_url(path):
            remote = Remote(str(path))
            folder = remote.mirror()
            return cls(folder, *read_manifest(folder), remote)
        folder = Path(path)
        if not (folder / "manifest.json").exists():
            unfinished = (folder / ".work").exists()
            raise refuse(
                "path",
                "be a finished store",
                f"{folder}, {'whose harvest did not finish' if unfinished else 'which has no manifest.json'}",
                "Run the same harvest again to go on." if unfinished else "Harvest into it first.",
            )
        # absolute: the program may change its folder before the first shard is read
        return cls(folder.absolute(), *read_manifest(folder))

    @property
    def d_in(self) -> int:
        """Width of a row."""
        return self.manifest["d_in"]

    @property
    def grid(self) -> tuple[int, int] | None:
        """(height, width) of the tokens of every sample; None when they differ."""
        if self.manifest["grid"] is None:
            return None
        height, width = self.manifest["grid"]
        return height, width

    @property
    def targets(self) -> dict[str, Mapping[str, Any]]:
        """Sample id → target, for the samples that have one."""
        return {sample["id"]: sample["target"] for sample in self._samples if sample["target"] is not None}

    @property
    def groups(self) -> Int64[Tensor, " samples"]:
        """Number of the group of every sample, in the order of `ids`; samples of a group are not independent."""
        numbers: dict[str, int] = {}
        return torch.tensor([numbers.setdefault(s["group"], len(numbers)) for s in self._samples], dtype=torch.int64)

    def samples(self, split: str = "test") -> list[str]:
        """Ids of the samples of a split, in order."""
        self._check_split(split)
        return [sample["id"] for sample in self._samples if sample["split"] == split]

    def rows(self, split: str = "train") -> ShardRows:
        """Return the rows of a split as a `RowSource`."""
        self._check_split(split)
        if split not in self._rows:
            if not self.manifest["rows"][split]:
                raise refuse("split", "hold rows", f"{split!r} with none", "Harvest more samples, or change the split.")
            mine = [i for i, shard in enumerate(self.manifest["shards"]) if shard["split"] == split]
            self._rows[split] = ShardRows(self._shards, mine, self.d_in, self._moments(split), split == "train")
        return self._rows[split]

    def batches(self, size: int, seed: int = 0, split: str = "train") -> Iterator[Batch]:
        """One shuffled pass over a split; the last batch may be shorter."""
        rows = self.rows(split)
        if size < 1:
            raise refuse("size", "be at least 1", size, "Raise it.")
        for start in range(0, len(rows), size):
            yield rows.take(rows.epoch_rows(seed, 0, start, min(start + size, len(rows))))

    def sample(self, id: str) -> StoredSample:
        """One sample with its rows in token order; quick for held-out samples, a gather for training ones."""
        if id not in self._number:
            raise refuse("id", "name a sample of the store", repr(id), closest(id, self.ids))
        number = self._number[id]
        facts, (rows, start, stop) = self._samples[number], self._places(number)
        batch = rows.take(rows.ordered(start, stop))
        height, width = facts["grid"]
        thumbnail, mask = self._held_pictures(number)
        pieces = ids = None
        if self._text is not None and facts["split"] != "train":
            held = number - self.manifest["samples"]["train"]
            pieces, ids = self._text.pieces(held), self._text.ids(held)
        return StoredSample(
            id,
            facts["split"],
            facts["target"],
            batch.x,
            batch.position,
            (height, width),
            thumbnail if thumbnail.exists() else None,
            read_mask(mask) if mask.exists() else None,
            pieces,
            ids,
            facts["group"],
        )

    def windows(self, split: str = "test") -> Iterator[HeldWindow]:
        """Held-out windows of text in the order of `samples(split)`: ids, positions whose rows are kept, document.

        Together with ``rows(split).in_order`` they say which row belongs at which token; see the splice.
        """
        self._check_split(split)
        if self._text is None:
            raise refuse("windows", "be asked of a store of text", self.url or self.path, "This one has no token ids.")
        if split == "train":
            raise refuse("split", "be held out", "'train', whose token ids are not kept", "Take test or validation.")
        train = self.manifest["samples"]["train"]
        for id in self.samples(split):
            number = self._number[id]
            rows, start, stop = self._places(number)
            positions = rows.positions(start, stop)
            yield HeldWindow(self._text.ids(number - train), positions, self._samples[number]["group"])

    def _places(self, number: int) -> tuple[ShardRows, int, int]:
        """Rows of a sample's split, and which places they take in the order of sample and position."""
        split = self._samples[number]["split"]
        first = sum(self.manifest["rows"][name] for name in SPLITS[: SPLITS.index(split)])
        stop = int(self._ends[number]) - first
        return self.rows(split), stop - self._samples[number]["rows"], stop

    def _held_pictures(self, number: int) -> tuple[Path, Path]:
        """Files of a sample's thumbnail and mask. Those of a URL are all brought when the first one is asked for."""
        if not self._pictures and self._remote is not None and number >= self.manifest["samples"]["train"]:
            self._remote.fetch_pictures(self.path)
            self._pictures = True
        return thumbnail_path(self.path, number), mask_path(self.path, number)

    def __len__(self) -> int:
        return self.manifest["rows"]["test"]

    def __getitem__(self, i: int) -> Float[Tensor, " d"]:
        """Row i of the test split."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"i must lie in {-len(self)}..{len(self) - 1}, the test rows; got {i}.")
        rows, place = self.rows("test"), i % len(self)
        return rows.take(rows.ordered(place, place + 1)).x[0]

    def __repr__(self) -> str:
        m = self.manifest
        counts = ", ".join(f"{name} {m['rows'][name]:,} rows of {m['samples'][name]:,} samples" for name in SPLITS)
        return (
            f"ActivationStore({self.url or str(self.path)!r}): {m['model']['name']} ({m['model']['weights']}) "
            f"at {m['hook']}, d_in {self.d_in}, {m['dtype']}; {counts}{self._dropped()}"
        )

    def _dropped(self) -> str:
        """Share of rows dropped for their norm, split by split; empty when there is no limit."""
        tokens = self.manifest["tokens"]
        if tokens.get("norm") is None:
            return ""
        shares = []
        for name in SPLITS:
            dropped, kept = tokens["high_norm"][name], self.manifest["rows"][name]
            shares.append(f"{name} {dropped / max(dropped + kept, 1):.2%}")
        return f"; dropped for a norm above {tokens['policy']['max_norm']:g} medians: {', '.join(shares)}"

    def _check_split(self, split: str) -> None:
        if split not in SPLITS:
            raise refuse("split", f"be one of {', '.join(SPLITS)}", repr(split), closest(split, SPLITS))

    def _moments(self, split: str) -> Moments:
        path = self.path / "moments.safetensors"
        try:
            tensors = load_file(str(path))
            mean, centred = tensors[f"{split}.mean"], tensors[f"{split}.centred"]
            if not len(mean) == len(centred) == self.d_in:
                raise KeyError(f"{len(mean)} columns instead of {self.d_in}")
        except (OSError, SafetensorError, KeyError) as error:
            raise refuse(
                "path", "hold a whole store", f"{path} ({error})", "Delete the folder and harvest anew."
            ) from None
        return Moments(self.manifest["rows"][split], mean, centred)
