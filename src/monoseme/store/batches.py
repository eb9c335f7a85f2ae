"""From samples to a batch of inputs, and from a batch of activations to the rows that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.errors import UserError, refuse
from monoseme.store.norms import norms
from monoseme.store.plan import Plan

__all__ = ["Rows", "collate", "select"]


@dataclass(frozen=True)
class Rows:
    """Rows of a batch, as the model gave them, with the place of each: sample, position, stream."""

    x: Float[Tensor, "n d"]
    sample: Int[Tensor, " n"]
    position: Int[Tensor, " n"]
    stream: Int[Tensor, " n"]

    def __getitem__(self, kept: Tensor) -> Rows:
        return Rows(self.x[kept], self.sample[kept], self.position[kept], self.stream[kept])


def collate(plan: Plan, numbers: Sequence[int], inputs: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
    """One input of the model from those of single samples: texts are padded, anything else must be of one shape."""
    if plan.text is not None:
        return padded(inputs, plan.recipe.policy.padding == "left")
    for number, x in zip(numbers, inputs, strict=True):
        if x.shape != inputs[0].shape:
            raise refuse(
                "data", f"hold samples of one shape, {tuple(inputs[0].shape)}",
                f"{tuple(x.shape)} in {name_of(plan, number)!r}", "Resize, crop or pad them.",
            )  # fmt: skip
    return torch.stack(list(inputs))


def padded(inputs: Sequence[Int[Tensor, " _"]], left: bool) -> dict[str, Tensor]:
    """Token ids side by side, filled up with id 0, and the mask that tells them apart."""
    width = max(len(ids) for ids in inputs)
    ids = torch.zeros(len(inputs), width, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for i, window in enumerate(inputs):
        where = slice(width - len(window), width) if left else slice(len(window))
        ids[i, where], mask[i, where] = window, 1
    return {"input_ids": ids, "attention_mask": mask}


def select(plan: Plan, numbers: Sequence[int], tokens: Float[Tensor, "B T d"]) -> Rows:
    """Rows that the policy keeps of these samples, in their order; those above the norm limit are among them still."""
    layout, width = plan.layout, tokens.shape[1]
    expected = int(layout.seen[list(numbers)].max())
    if width != expected or tokens.shape[2] != plan.d_in:
        what = "the longest text of the batch has" if plan.text is not None else "the first one does"
        raise refuse(
            "data" if plan.text is None else "at",
            f"give {expected} tokens of width {plan.d_in} a sample, as {what}",
            f"{tuple(tokens.shape[1:])} from {name_of(plan, numbers[0])!r} on",
            "Bring all samples to one size." if plan.text is None else "Hook a module that gives one row a token.",
        )
    kept = [layout.kept(number) for number in numbers]
    counts = torch.tensor([len(positions) for positions in kept])
    position, batch = torch.cat(kept), torch.arange(len(numbers)).repeat_interleave(counts)
    column = position + torch.tensor([layout.offset(number, width) for number in numbers])[batch]
    rows = Rows(
        tokens[batch.to(tokens.device), column.to(tokens.device)].cpu(),
        torch.tensor(list(numbers))[batch],
        position,
        torch.cat([plan.stream_of(number) for number in numbers]),
    )
    if not rows.x.isfinite().all():
        i = int((~rows.x.isfinite()).any(1).nonzero()[0])
        got = f"NaN or infinity at {place_of(plan, rows, i)}"
        raise refuse("data", "give finite activations", got, "Check the sample and the model.")
    return rows


def stored(plan: Plan, rows: Rows) -> Rows:
    """Rows below the norm limit, in the dtype of the store."""
    if plan.limit is not None:
        rows = rows[norms(rows.x) <= plan.limit.limit]
    x = rows.x.to(plan.dtype)
    if not x.isfinite().all():
        raise overflow(plan, rows, int((~x.isfinite()).any(1).nonzero()[0]))
    return Rows(x, rows.sample, rows.position, rows.stream)


def overflow(plan: Plan, rows: Rows, i: int) -> UserError:
    """Name the first row that the dtype cannot hold."""
    got = f"an overflow at {place_of(plan, rows, i)}"
    return refuse("dtype", "hold every activation", got, "Use bfloat16 or float32.")


def place_of(plan: Plan, rows: Rows, i: int) -> str:
    """Sample and token of row i, for an error."""
    return f"sample {name_of(plan, int(rows.sample[i]))!r}, token {int(rows.position[i])}"


def name_of(plan: Plan, number: int) -> Any:
    """Id of a sample."""
    return plan.source.entries[plan.order[number]].id
