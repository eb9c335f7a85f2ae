"""What a harvest will do, worked out before it starts: the request, the order of samples, the streams, the size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor

from monoseme.core.errors import UserError, refuse
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, TokenGrid
from monoseme.store.inputs import activations, first_input
from monoseme.store.sources import SPLITS, Source, as_source, assign_splits
from monoseme.store.thumbnails import held_out_bytes

__all__ = ["DTYPES", "Plan", "Recipe", "make_plan", "predict_size"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TOKENS = ("patches", "all")


@dataclass(frozen=True)
class Recipe:
    """What is asked for, apart from model and data. Two harvests with equal recipes, models and data are one.

    Attributes
    ----------
    at
        Hook name.
    split
        Shares of groups in train, validation, test; None takes the source's own splits, or .8, .1, .1.
    seed
        Seed of splits and of the order in which training rows are stored.
    dtype
        "float32", "bfloat16" or "float16": how rows are stored.
    batch_size
        Samples in one forward pass.
    tokens
        "patches" drops leading special tokens (CLS, registers), "all" keeps them.
    shard_rows
        Rows in one file, about.
    """

    at: str
    split: tuple[float, float, float] | None = None
    seed: int = 0
    dtype: str = "float32"
    batch_size: int = 16
    tokens: str = "patches"
    shard_rows: int = 65_536

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise refuse("dtype", f"be one of {', '.join(DTYPES)}", repr(self.dtype), "float32 is always safe.")
        if self.tokens not in TOKENS:
            raise refuse("tokens", f"be one of {', '.join(TOKENS)}", repr(self.tokens), "'patches' drops CLS.")
        for name in ("batch_size", "shard_rows"):
            if getattr(self, name) < 1:
                raise refuse(name, "be at least 1", getattr(self, name), "Raise it.")


@dataclass(frozen=True)
class Plan:
    """All that follows from model, data and recipe.

    Attributes
    ----------
    order
        Position in the source of every sample, in the order of harvest: train, then validation, then test.
    splits
        Split of every sample, in that order.
    tokens
        Kept tokens of a sample, T.
    special
        Leading tokens dropped.
    grid
        (height, width) of the kept tokens.
    """

    recipe: Recipe
    source: Source
    request: dict[str, Any]
    order: list[int]
    splits: list[str]
    tokens: int
    special: int
    grid: tuple[int, int]
    d_in: int
    dtype: torch.dtype

    @cached_property
    def counts(self) -> dict[str, int]:
        """Samples of every split."""
        return {name: self.splits.count(name) for name in SPLITS}

    @cached_property
    def streams(self) -> list[str]:
        """Names of the shards to be: every row goes to exactly one."""
        per_shard = {"train": max(1, -(-self.counts["train"] * self.tokens // self.recipe.shard_rows))}
        for name in SPLITS[1:]:
            per_shard[name] = -(-self.counts[name] // self.samples_per_shard)
        return [f"{name}-{i:05d}" for name in SPLITS for i in range(per_shard[name])]

    @property
    def samples_per_shard(self) -> int:
        """Whole samples in one held-out shard."""
        return max(1, self.recipe.shard_rows // self.tokens)

    def stream_of(self, sample: int) -> Int[Tensor, " T"]:
        """Index into `streams` of every token of a sample: drawn at random in train, in order elsewhere."""
        split = self.splits[sample]
        if split == "train":
            n_train = sum(name.startswith("train-") for name in self.streams)
            stream = generator(self.recipe.seed, "bucket", sample)
            return torch.randint(n_train, (self.tokens,), generator=stream)
        before = self.splits.index(split)
        shard = f"{split}-{(sample - before) // self.samples_per_shard:05d}"
        return torch.full((self.tokens,), self.streams.index(shard))

    @cached_property
    def samples_json(self) -> list[dict[str, Any]]:
        """Id, split, group and target of every sample, in order."""
        entries = [self.source.entries[i] for i in self.order]
        return [
            {"id": e.id, "split": s, "group": e.group, "target": dict(e.target) if e.target else None}
            for e, s in zip(entries, self.splits, strict=True)
        ]

    def predict_bytes(self) -> int:
        """Bytes of the finished store, its manifest apart: rows, keys, headers, tables, thumbnails and masks."""
        item = torch.empty(0, dtype=self.dtype).element_size()
        rows = len(self.order) * self.tokens * (self.d_in * item + 8)
        empty = torch.empty(0, self.d_in, dtype=self.dtype)
        key = torch.empty(0, dtype=torch.int32)
        headers = len(self.streams) * len(save({"x": empty, "sample": key, "position": key.clone()}))
        table = len(json.dumps(self.samples_json, indent=1, sort_keys=True)) + 1
        moments = sum(16 * self.d_in + 200 for count in self.counts.values() if count)
        held = [i for i, split in zip(self.order, self.splits, strict=True) if split != "train"]
        return rows + headers + table + moments + held_out_bytes(self.source, held, self.grid)


def make_plan(model: HookedModel, source: Source, recipe: Recipe) -> Plan:
    """Split the samples, run the model on the first one to learn the shapes, and lay out the streams."""
    order, splits = _order(source, recipe)
    first, fingerprint = first_input(model, source, order[0])
    tokens = activations(model, first, recipe.at)
    special, grid = _kept(model.grid(recipe.at), tokens.shape[1], recipe.tokens)
    return Plan(
        recipe,
        source,
        _request(model, source, recipe, fingerprint),
        order,
        splits,
        tokens.shape[1] - special,
        special,
        grid,
        tokens.shape[2],
        DTYPES[recipe.dtype],
    )


def _order(source: Source, recipe: Recipe) -> tuple[list[int], list[str]]:
    """Positions in the source, train first, then validation, then test; and the split of each."""
    given = [entry.split for entry in source.entries]
    if any(given):
        if recipe.split is not None:
            raise refuse("split", "be left out for data that splits itself", recipe.split, "Give it to the data.")
        splits = [str(name) for name in given]
        if unknown := set(splits) - set(SPLITS):
            raise refuse("data", f"use the splits {', '.join(SPLITS)}", sorted(unknown), "Name one for every entry.")
    else:
        groups = [entry.group for entry in source.entries]
        of_group = assign_splits(groups, recipe.split or (0.8, 0.1, 0.1), recipe.seed)
        splits = [of_group[group] for group in groups]
    order = sorted(range(len(source)), key=lambda i: (SPLITS.index(splits[i]), i))
    if "train" not in splits:
        raise refuse("data", "leave samples for training", f"{len(source)} samples, none for train", "Add samples.")
    return order, [splits[i] for i in order]


def _kept(grid: TokenGrid | None, tokens: int, policy: str) -> tuple[int, tuple[int, int]]:
    """Number of leading tokens dropped, and the (height, width) of those kept."""
    if grid is None or (grid.special and policy == "all"):
        return 0, (1, tokens)
    return grid.special, (grid.height, grid.width)


def predict_size(model: HookedModel, data: Any, recipe: Recipe) -> int:
    """Bytes that `harvest` will write, within 1 %, from one forward pass of one sample."""
    return make_plan(model, as_source(data), recipe).predict_bytes()


def _request(model: HookedModel, source: Source, recipe: Recipe, fingerprint: str) -> dict[str, Any]:
    """Everything the bytes of the store depend on. The data enter by their entries and their first sample."""
    entries = json.dumps([asdict(entry) for entry in source.entries], sort_keys=True)
    return {
        **asdict(recipe),
        "split": None if recipe.split is None else list(recipe.split),
        "model": model.name,
        "weights": model.facts.weights,
        "revision": model.revision,
        "data": hashlib.sha256((entries + fingerprint).encode()).hexdigest(),
    }


def differences(request: dict[str, Any], other: dict[str, Any]) -> Sequence[str]:
    """Names of the fields in which two requests differ."""
    return [name for name in sorted(request.keys() | other.keys()) if request.get(name) != other.get(name)]


def not_finite(plan: Plan, first: int, tokens: Float[Tensor, "B T d"], stored: Float[Tensor, "B T d"]) -> UserError:
    """Name the first sample and token with a number that is not finite."""
    where = (~stored.isfinite()).any(-1).nonzero()[0].tolist()
    entry = plan.source.entries[plan.order[first + where[0]]]
    place = f"sample {entry.id!r}, token {where[1]}"
    if tokens[where[0], where[1]].isfinite().all():
        return refuse("dtype", "hold every activation", f"an overflow at {place}", "Use bfloat16 or float32.")
    return refuse("data", "give finite activations", f"NaN or infinity at {place}", "Check the sample and the model.")
