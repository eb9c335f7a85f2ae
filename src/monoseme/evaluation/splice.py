"""Splice: put reconstructions back where the rows came from, run on, and see what the model lost by it.

Reconstruction error weighs all directions alike; the model does not. Definitions of the recovered shares as in SAEBench
(Karvonen et al. 2025), but the default ablation is the mean of the rows instead of zero: rows have a large mean, and an
ablation that takes that away too makes any featurizer look good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.stats import Moments, moments
from monoseme.evaluation.output_change import Change, change_numbers, merge_changes, next_token_loss, row_changes
from monoseme.evaluation.output_rows import output_rows
from monoseme.models import HookedModel

__all__ = ["SpliceBatch", "splice"]


@dataclass(frozen=True, eq=False)
class SpliceBatch:
    """Some samples to run.

    Attributes
    ----------
    x
        Input of the model: ``{"input_ids": (B, T), "attention_mask": (B, T)}``, pictures (B, 3, H, W), or whatever it
        takes with B samples along the first axis.
    keep
        (B, T) tokens of the hook to replace, with T as ``model.run`` gives it: those whose rows the store keeps.
    group
        (B,) document or picture each sample belongs to: the unit that intervals resample.
    """

    x: Any
    keep: Bool[Tensor, "B T"]
    group: Int[Tensor, " B"]


@torch.no_grad()
def splice(
    featurizer: Featurizes,
    model: HookedModel,
    at: str,
    inputs: Iterable[SpliceBatch],
    *,
    baseline: str | Float[Tensor, " d"] = "mean",
    refine: Refine = None,
    samples: str = "samples",
    seed: int = 0,
) -> dict[str, Outcome]:
    """Compare a model's output with and without reconstructions at a hook. Three forward passes a batch.

    Parameters
    ----------
    featurizer
        What encodes and decodes the rows of the hook, in raw units.
    model, at
        The model the rows came from, and their hook.
    inputs
        Held-out samples, in any batches: the numbers do not depend on the batch size or the side of the padding. It is
        walked through twice for ``baseline="mean"``. Memory holds two outputs of a batch, (B, T, V) of a language
        model.
    baseline
        What is put back to ablate: ``"mean"``, the mean of all replaced rows; ``"zero"``; or a row of your own, for
        example the mean of the training rows, which saves a pass.
    refine
        Improve the codes at inference: ``"ls"`` or ``"omp"``.
    samples
        What a group is, for the notes: ``"documents"``, ``"pictures"``.
    seed
        Of the resampling of groups.

    Returns
    -------
    dict
        Of a language model (logits (B, T, V) of ``input_ids``), over all positions whose next token is real:

        ``ce_clean``, ``ce_spliced``, ``ce_ablated``
            Cross-entropy of the next token, nats/token.
        ``ce_recovered``
            (ablated − spliced) ÷ (ablated − clean). 1 is perfect, 0 as bad as the baseline; higher is better. Unknown
            when the baseline does not raise the loss.
        ``kl``, ``kl_recovered``
            KL(clean ‖ spliced), nats/token, lower is better; and 1 − it ÷ KL(clean ‖ ablated), higher is better.

        Of a classifier (logits (B, C)):

        ``agreement``, ``agreement_ablated``
            Share of inputs whose most likely class stays the same; higher is better.
        ``kl``, ``kl_recovered``
            As above, nats/input.

        Of any other module, on its own output:

        ``output_recovered``
            1 − Σ‖spliced − clean‖² ÷ Σ‖ablated − clean‖²; higher is better. Padding does not count.

    Raises
    ------
    UserError
        No samples, no token to replace, padding to replace, no position to predict, marks of another shape than the
        hook's tokens, another width than the featurizer's, or inputs that can be walked through only once.
    """
    width = featurizer.atoms.shape[2]
    row = _baseline(baseline, width, model, at, inputs)

    def put_back(rows: Float[Tensor, "n d"]) -> Tensor:
        return featurizer.decode(featurizer.encode(rows.to(featurizer.atoms), refine=refine))

    def ablate(rows: Float[Tensor, "n d"]) -> Tensor:
        return row.expand(len(rows), -1)

    changes, replaced = [], 0
    for batch in _batches(inputs, model):
        replaced += int(batch.keep.sum())
        edits = {"spliced": _replace(batch, width, put_back), "ablated": _replace(batch, width, ablate)}
        changes.append(_change(model, at, batch, edits))
    if not replaced:
        raise refuse("inputs", "mark at least one token to replace", "none", "Give samples whose rows were kept.")
    change = merge_changes(changes)
    if not len(change.group):
        raise refuse("inputs", "hold a position whose next token is real", "none", "Give texts of two tokens or more.")
    said = baseline if isinstance(baseline, str) else "given"
    where = {"model": model.name, "at": at, "baseline": said, "refine": refine, "replaced": replaced}
    numbers = change_numbers(change, samples, seed)
    return {name: replace(outcome, provenance=where) for name, outcome in numbers.items()}


def _batches(inputs: Iterable[SpliceBatch], model: HookedModel) -> Iterator[SpliceBatch]:
    """The batches, on the model's device."""
    for batch in inputs:
        x = batch.x
        mask = x.get("attention_mask") if isinstance(x, Mapping) else None
        if mask is not None and mask.shape == batch.keep.shape and bool((batch.keep & ~mask.bool()).any()):
            raise refuse("inputs", "mark no padding to replace", "a kept token where the mask is 0", "See keep.")
        if isinstance(x, Mapping):
            x = {name: value.to(model.device) for name, value in x.items()}
        elif isinstance(x, Tensor):
            x = x.to(model.device)
        yield SpliceBatch(x, batch.keep.to(model.device), batch.group)


def _kept(tokens: Float[Tensor, "B T d"], batch: SpliceBatch, width: int) -> Float[Tensor, "n d"]:
    if batch.keep.shape != tokens.shape[:2]:
        raise refuse(
            "inputs",
            f"mark tokens as {tuple(tokens.shape[:2])}, those of the hook",
            tuple(batch.keep.shape),
            "See keep.",
        )
    if tokens.shape[2] != width:
        raise refuse(
            "at", f"name a hook of width {width}, the featurizer's", tokens.shape[2], "Use the hook it was fitted on."
        )
    return tokens[batch.keep]


def _baseline(
    baseline: str | Tensor, width: int, model: HookedModel, at: str, inputs: Iterable[SpliceBatch]
) -> Float[Tensor, "1 d"]:
    if isinstance(baseline, Tensor):
        if baseline.shape != (width,):
            raise refuse("baseline", f"be a row of width {width}", tuple(baseline.shape), "Or 'mean', or 'zero'.")
        return baseline[None].to(model.device)
    if baseline == "zero":
        return torch.zeros(1, width, device=model.device)
    if baseline != "mean":
        raise refuse("baseline", "be 'mean', 'zero' or a row", repr(baseline), "The default is 'mean'.")
    if isinstance(inputs, Iterator):
        raise refuse(
            "inputs", "be walked through twice for the mean", "an iterator", "Give a list, or the baseline row."
        )
    parts = [moments(_kept(model.run(batch.x, at=at), batch, width)) for batch in _batches(inputs, model)]
    if not parts:
        raise refuse("inputs", "hold at least one batch", "none", "Choose another split, or harvest more samples.")
    return reduce(Moments.merge, parts).mean[None].to(model.device)


def _change(model: HookedModel, at: str, batch: SpliceBatch, edits: Mapping[str, Callable[[Tensor], Tensor]]) -> Change:
    """Statistics of one batch, a group an entry; one changed output is held at a time."""
    vocabulary = 0 if model.facts.tokenizer is None else model.facts.tokenizer.vocabulary
    clean = output_rows(model(batch.x), batch.x, vocabulary)
    found: dict[str, Float64[Tensor, " n"]] = {"rows": torch.ones(len(clean.values), dtype=torch.float64)}
    if clean.kind == "output":
        found["square"] = clean.values.double().square().sum(1)
    if clean.targets is not None:
        found["ce_clean"] = next_token_loss(clean.values, clean.targets)
    for name, edit in edits.items():
        with model.edit(at, edit):
            changed = output_rows(model(batch.x), batch.x, vocabulary)
        for what, values in row_changes(clean.kind, clean.values, changed.values, clean.targets).items():
            found[f"{what}_{name}"] = values
    group, of_sample = np.unique(batch.group.cpu().numpy(), return_inverse=True)
    of_row = of_sample[clean.owner.cpu().numpy()]
    # of no rows at all, NumPy counts in integers
    sums = {
        name: np.bincount(of_row, values.cpu().numpy(), len(group)).astype(np.float64) for name, values in found.items()
    }
    return Change(clean.kind, group, sums)


def _replace(batch: SpliceBatch, width: int, make: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Edit of the hook's tokens: the kept ones become ``make(rows)``."""

    def edit(tokens: Float[Tensor, "B T d"]) -> Tensor:
        rows = _kept(tokens, batch, width)
        if not len(rows):
            return tokens
        new = tokens.clone()
        new[batch.keep] = make(rows).to(tokens)
        return new

    return edit
