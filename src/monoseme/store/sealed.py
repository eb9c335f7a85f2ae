"""Sealed shards: their checksums, and the statistics of the rows as stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from safetensors import safe_open
from torch import Tensor

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import sha256
from monoseme.core.stats import Moments, moments

__all__ = ["Sealed", "Shards", "describe_shards"]

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
    fetch
        Brings a file of that name into the folder, when the store itself is elsewhere (at `where`).
    """

    def __init__(
        self,
        folder: Path,
        shards: Sequence[dict[str, Any]],
        fetch: Callable[[str], None] | None = None,
        where: str = "",
    ) -> None:
        self.folder, self.shards, self.where = folder, list(shards), where
        self._fetch = fetch
        self._open: dict[int, dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        """Tensors "x", "sample", "position" of shard i, mapped from the file. Checked once, on first use."""
        if i not in self._open:
            shard = self.shards[i]
            path = self.folder / shard["file"]
            fault = _fault(path, shard)
            if fault and self._fetch is not None:
                self._fetch(shard["file"])
                fault = _fault(path, shard)
            if fault:
                raise self._damaged(shard, fault)
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
            f"{self.where or shown}, whose {shard['file']} {why}",
            "Copy it again, or delete the folder and harvest anew.",
        )


def _fault(path: Path, shard: dict[str, Any]) -> str:
    """What is wrong with the file of a shard; empty when nothing is."""
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != shard["bytes"]:
        return f"has {path.stat().st_size} bytes instead of {shard['bytes']}"
    return "" if sha256(path) == shard["sha256"] else "does not match its checksum"


def read_shard(path: Path) -> dict[str, Tensor]:
    """Tensors of a shard, memory-mapped."""
    with safe_open(str(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in ("x", "sample", "position")}


@dataclass(frozen=True)
class Sealed:
    """What the sealed shards hold.

    Attributes
    ----------
    shards
        Their entries in the manifest.
    moments
        Of every split that has rows.
    numbers
        About training rows: ``mean_square_norm`` E‖x‖², ``variance`` E‖x − mean‖², ``median_norm``, and
        ``high_norm_share``, the share of rows whose norm is above 10 times the median (attention sinks, as a rule).
    rows
        Rows of every sample.
    """

    shards: list[dict[str, Any]]
    moments: dict[str, Moments]
    numbers: dict[str, float]
    rows: Int64[np.ndarray, " N"]


def describe_shards(folder: Path, streams: Sequence[str], samples: int) -> Sealed:
    """Read all sealed shards once."""
    shards, of_split, norms, rows = [], {}, [], np.zeros(samples, dtype=np.int64)
    for name in streams:
        path, split = folder / f"{name}.safetensors", name.partition("-")[0]
        if not path.exists():  # no row was dealt to this stream
            continue
        tensors = read_shard(path)
        x = tensors["x"]
        rows += np.bincount(tensors["sample"].numpy(), minlength=samples)
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
    return Sealed(shards, of_split, numbers, rows)
