"""Sealed shards: their checksums, and the statistics of the rows as stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import sha256
from monoseme.core.stats import Moments, moments

__all__ = ["Shards", "describe_shards"]

CHUNK = 8_192  # rows widened to float64 at a time
SINK = 10.0  # a row is called high-norm above this many times the median norm


class Shards:
    """Shards of a store, opened when first needed; a damaged one is an error that names it.

    Parameters
    ----------
    folder
        Folder of the store.
    shards
        Their entries in the manifest: file, rows, bytes, sha256.
    """

    def __init__(self, folder: Path, shards: Sequence[dict[str, Any]]) -> None:
        self.folder, self.shards = folder, list(shards)
        self._open: dict[int, dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        """Tensors "x", "sample", "position" of shard i, mapped from the file. Checked once, on first use."""
        if i not in self._open:
            shard = self.shards[i]
            path = self.folder / shard["file"]
            if not path.is_file():
                raise self._damaged(shard, "is missing")
            if path.stat().st_size != shard["bytes"]:
                raise self._damaged(shard, f"has {path.stat().st_size} bytes instead of {shard['bytes']}")
            if sha256(path) != shard["sha256"]:
                raise self._damaged(shard, "does not match its checksum")
            tensors = read_shard(path)
            if len(tensors["x"]) != shard["rows"]:
                raise self._damaged(shard, f"has {len(tensors['x'])} rows instead of {shard['rows']}")
            self._open[i] = tensors
        return self._open[i]

    def _damaged(self, shard: dict[str, Any], why: str) -> UserError:
        here = Path.cwd()
        shown = self.folder.relative_to(here) if self.folder.is_relative_to(here) else self.folder
        return refuse(
            "path",
            "hold a store with every shard whole",
            f"{shown}, whose {shard['file']} {why}",
            "Copy it again, or delete the folder and harvest anew.",
        )


def read_shard(path: Path) -> dict[str, Tensor]:
    """Tensors of a shard, memory-mapped."""
    with safe_open(str(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in ("x", "sample", "position")}


def describe_shards(
    folder: Path, streams: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, Moments], dict[str, float]]:
    """Entries of the manifest for sealed shards, moments of every split, and numbers about training rows.

    The numbers: ``mean_square_norm`` E‖x‖², ``variance`` E‖x − mean‖², ``median_norm``, and ``high_norm_share``, the
    share of rows whose norm is above 10 times the median (attention sinks, as a rule), which is only reported.
    """
    shards, of_split, norms = [], {}, []
    for name in streams:
        path, split = folder / f"{name}.safetensors", name.partition("-")[0]
        if not path.exists():  # no row was dealt to this stream
            continue
        x = read_shard(path)["x"]
        entry = {"file": path.name, "split": split, "rows": len(x)}
        shards.append({**entry, "bytes": path.stat().st_size, "sha256": sha256(path)})
        for part in x.split(CHUNK):
            moment = moments(part)
            of_split[split] = of_split[split].merge(moment) if split in of_split else moment
            if split == "train":
                norms.append(part.float().square().sum(1).sqrt())
    norm, train = torch.cat(norms), of_split["train"]
    median = norm.median()
    numbers = {
        "mean_square_norm": train.mean_square_norm + float(train.mean.square().sum()),
        "variance": train.mean_square_norm,
        "median_norm": float(median),
        "high_norm_share": float((norm > SINK * median).double().mean()),
    }
    return shards, of_split, numbers
