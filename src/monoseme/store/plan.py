"""`Plan`: what a harvest will do, worked out before it starts: the order of samples, the streams, the size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors.torch import save
from torch import Tensor

from monoseme.core.seeds import generator
from monoseme.store.heldtext import text_tensors
from monoseme.store.layout import Layout
from monoseme.store.norms import NormLimit
from monoseme.store.recipe import Recipe
from monoseme.store.sources import SPLITS, Source
from monoseme.store.thumbnails import held_out_bytes
from monoseme.store.windows import Windows

__all__ = ["Plan", "differences"]


@dataclass(frozen=True)
class Plan:
    """All that follows from model, data and recipe.

    Attributes
    ----------
    order
        Position in the source of every sample, in the order of harvest: train, then validation, then test.
    splits
        Split of every sample, in that order.
    layout
        Tokens of every sample, in that order.
    limit
        Largest norm of a row, when the policy sets one.
    """

    recipe: Recipe
    source: Source
    request: dict[str, Any]
    order: list[int]
    splits: list[str]
    layout: Layout
    d_in: int
    dtype: torch.dtype
    limit: NormLimit | None = None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Samples of every split."""
        return {name: self.splits.count(name) for name in SPLITS}

    def total(self, counts: Sequence[int] | np.ndarray) -> dict[str, int]:
        """Sum of a number a sample, over every split."""
        ends = np.cumsum([self.counts[name] for name in SPLITS])[:-1]
        return {name: int(part.sum()) for name, part in zip(SPLITS, np.split(np.asarray(counts), ends), strict=True)}

    @property
    def first_held(self) -> int:
        """Number of the first sample that is not for training."""
        return self.counts["train"]

    @property
    def text(self) -> Windows | None:
        """The source, when it is text."""
        return self.source if isinstance(self.source, Windows) else None

    @cached_property
    def train_streams(self) -> int:
        """Number of training shards."""
        return max(1, -(-self.total(self.layout.rows)["train"] // self.recipe.shard_rows))

    @cached_property
    def held_shards(self) -> list[str]:
        """Shard of every held-out sample: whole samples, filled up in order."""
        found, previous, shard, filled = [], "", 0, 0
        for split, rows in zip(self.splits[self.first_held :], self.layout.rows[self.first_held :], strict=True):
            if split != previous:
                previous, shard, filled = split, 0, 0
            elif filled + rows > self.recipe.shard_rows:
                shard, filled = shard + 1, 0
            filled += int(rows)
            found.append(f"{split}-{shard:05d}")
        return found

    @cached_property
    def streams(self) -> list[str]:
        """Names of the shards to be: every row goes to exactly one."""
        return [f"train-{i:05d}" for i in range(self.train_streams)] + list(dict.fromkeys(self.held_shards))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.streams)}

    def stream_of(self, sample: int) -> Int[Tensor, " n"]:
        """Index into `streams` of every row of a sample: drawn at random in train, in order elsewhere."""
        n = int(self.layout.rows[sample])
        if sample < self.first_held:
            return torch.randint(self.train_streams, (n,), generator=generator(self.recipe.seed, "bucket", sample))
        return torch.full((n,), self._number[self.held_shards[sample - self.first_held]])

    def samples_json(self, rows: Sequence[int] | np.ndarray) -> list[dict[str, Any]]:
        """Table of samples, in order: id, split, group, target, grid, and how many rows each has."""
        entries = [self.source.entries[i] for i in self.order]
        return [
            {
                "id": e.id,
                "split": split,
                "group": e.group,
                "target": dict(e.target) if e.target else None,
                "grid": list(grid),
                "rows": int(n),
            }
            for e, split, grid, n in zip(entries, self.splits, self.layout.grids, rows, strict=True)
        ]

    def predict_bytes(self) -> int:
        """Bytes of the finished store, its manifest apart: rows, keys, headers, tables, thumbnails and masks."""
        item = torch.empty(0, dtype=self.dtype).element_size()
        kept = 1.0 if self.limit is None else 1 - self.limit.share_above
        rows = round(int(self.layout.rows.sum()) * kept) * (self.d_in * item + 8)
        empty = torch.empty(0, self.d_in, dtype=self.dtype)
        key = torch.empty(0, dtype=torch.int32)
        headers = len(self.streams) * len(save({"x": empty, "sample": key, "position": key.clone()}))
        table = len(json.dumps(self.samples_json(self.layout.rows), indent=1, sort_keys=True)) + 1
        moments = sum(16 * self.d_in + 200 for count in self.counts.values() if count)
        held = self.order[self.first_held :]
        if self.text is not None:
            shown = len(save(text_tensors(self.text, held))) if held else 0
        else:
            shown = held_out_bytes(self.source, held, self.layout.grids[0])
        return rows + headers + table + moments + shown


def differences(request: dict[str, Any], other: dict[str, Any]) -> Sequence[str]:
    """Names of the fields in which two requests differ."""
    return [name for name in sorted(request.keys() | other.keys()) if request.get(name) != other.get(name)]
