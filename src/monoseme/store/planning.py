"""`make_plan`: from model, data and recipe to a plan, with one forward pass of one sample (and a probe for a norm)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models import HookedModel
from monoseme.store.batches import collate, padded, select
from monoseme.store.data import as_source
from monoseme.store.inputs import activations, known_ids, model_input
from monoseme.store.layout import even_layout, window_layout
from monoseme.store.norms import PROBED, NormLimit, norm_limit
from monoseme.store.plan import Plan
from monoseme.store.recipe import DTYPES, Recipe
from monoseme.store.sources import SPLITS, Source, assign_splits
from monoseme.store.windows import Windows, as_windows

__all__ = ["make_plan", "predict_size"]


def make_plan(model: HookedModel, data: Any, recipe: Recipe) -> Plan:
    """Split the samples, run the model on the first one to learn the shapes, and lay out the streams."""
    source = as_windows(model, as_source(data), recipe.policy)
    text = source if isinstance(source, Windows) else None
    order, splits = _order(source, recipe)
    first = model_input(model, source[order[0]])
    x = first.unsqueeze(0) if text is None else padded([first], False)
    with known_ids(model, text, x):
        tokens = activations(model, x, recipe.at)
    if text is None:
        layout = even_layout(len(order), tokens.shape[1], model.grid(recipe.at), recipe.policy)
    else:
        layout = window_layout(text, order, recipe.policy)
    request = _request(model, source, recipe, _hash(first) if text is None else text.digest)
    plan = Plan(recipe, source, request, order, splits, layout, tokens.shape[2], DTYPES[recipe.dtype])
    return plan if recipe.policy.max_norm is None else replace(plan, limit=_probe(model, plan, recipe.policy.max_norm))


def predict_size(model: HookedModel, data: Any, recipe: Recipe) -> int:
    """Bytes that `harvest` will write, within 1 %, from one forward pass of one sample.

    With a norm limit the share of dropped rows is that of its probe.
    """
    return make_plan(model, data, recipe).predict_bytes()


def _probe(model: HookedModel, plan: Plan, max_norm: float) -> NormLimit:
    """Median norm of the rows of the first training samples."""
    parts: list[Tensor] = []
    last = min(PROBED, plan.first_held)
    for start in range(0, last, plan.recipe.batch_size):
        numbers = range(start, min(start + plan.recipe.batch_size, last))
        x = collate(plan, numbers, [model_input(model, plan.source[plan.order[n]]) for n in numbers])
        parts.append(select(plan, numbers, activations(model, x, plan.recipe.at)).x)
    return norm_limit(torch.cat(parts), max_norm)


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


def _hash(x: Tensor) -> str:
    plain = x.detach().cpu().contiguous()
    return hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy().data).hexdigest()


def _request(model: HookedModel, source: Source, recipe: Recipe, fingerprint: str) -> dict[str, Any]:
    """Everything the bytes of the store depend on, as JSON gives it back.

    Pictures and tensors enter by their entries and their first sample, text by all of its ids.
    """
    entries: Sequence[dict[str, Any]] = [asdict(entry) for entry in source.entries]
    data = hashlib.sha256((json.dumps(entries, sort_keys=True) + fingerprint).encode()).hexdigest()
    facts = {"model": model.name, "weights": model.facts.weights, "revision": model.revision, "data": data}
    return json.loads(json.dumps({**asdict(recipe), **facts}))
