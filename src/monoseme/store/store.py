"""`ActivationStore`: what `harvest` wrote, open for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monoseme.core.errors import closest, refuse
from monoseme.core.rows import Batch
from monoseme.core.stats import Moments
from monoseme.store.manifest import read_manifest
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
        (T, d_in) activations in token order, float32.
    grid
        (height, width) of the tokens; (1, T) when they are not a picture's.
    thumbnail
        Picture file of a held-out sample, if it has one.
    mask
        (T,) share of each token that the target's object covers, for held-out samples that know it.
    """

    id: str
    split: str
    target: Mapping[str, Any] | None
    rows: Float[Tensor, "T d"]
    grid: tuple[int, int]
    thumbnail: Path | None
    mask: Float[Tensor, " T"] | None


class ActivationStore:
    """Rows of activations by split, traceable to samples. Read with `open`; written by `harvest` only.

    ``len(store)`` and ``store[i]`` speak of the test split: row i in order of sample and position.

    Attributes
    ----------
    path
        Folder of the store.
    manifest
        All that is known of it: model and revision, hook, token policy, dtype, rows, checksums, norms, versions.
    ids
        Id of every sample; `Batch.sample` counts in this list.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], samples: list[dict[str, Any]]) -> None:
        self.path, self.manifest = path, manifest
        self.ids = [sample["id"] for sample in samples]
        self._samples = samples
        self._number = {name: i for i, name in enumerate(self.ids)}
        self._shards = Shards(path, manifest["shards"])
        self._rows: dict[str, ShardRows] = {}

    @classmethod
    def open(cls, path: str | Path) -> ActivationStore:
        """Open a finished store. Shards are checked against their checksums when they are first read."""
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
    def grid(self) -> tuple[int, int]:
        """(height, width) of the tokens of every sample."""
        height, width = self.manifest["grid"]
        return height, width

    @property
    def targets(self) -> dict[str, Mapping[str, Any]]:
        """Sample id → target, for the samples that have one."""
        return {sample["id"]: sample["target"] for sample in self._samples if sample["target"] is not None}

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
        facts, tokens = self._samples[number], self.manifest["tokens"]["per_sample"]
        rows = self.rows(facts["split"])
        place = (number - self._first(facts["split"])) * tokens
        x = rows.take(rows.ordered(place, place + tokens)).x
        thumbnail, mask = thumbnail_path(self.path, number), mask_path(self.path, number)
        return StoredSample(
            id,
            facts["split"],
            facts["target"],
            x,
            self.grid,
            thumbnail if thumbnail.exists() else None,
            read_mask(mask) if mask.exists() else None,
        )

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
            f"ActivationStore({str(self.path)!r}): {m['model']['name']} ({m['model']['weights']}) at {m['hook']}, "
            f"d_in {self.d_in}, {m['dtype']}; {counts}"
        )

    def _first(self, split: str) -> int:
        """Number of the first sample of a split: splits lie one after another."""
        return sum(self.manifest["samples"][name] for name in SPLITS[: SPLITS.index(split)])

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
