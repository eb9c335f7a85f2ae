"""The held-out samples of a store as inputs of its model, so that reconstructions can be put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.evaluation import SpliceBatch
from monoseme.models import HookedModel
from monoseme.store import ActivationStore
from monoseme.store.data import as_source
from monoseme.store.inputs import model_input

__all__ = ["Held", "HeldInputs", "held_inputs"]

CHANGED = 0.05  # relative error of a sample's rows, above that of half precision and of other kernels


class Held(NamedTuple):
    """A held-out sample: what renders its input, the grid positions whose rows are kept, its group, and those rows."""

    render: Callable[[], Tensor]
    positions: Int64[Tensor, " n"]
    group: str
    rows: Callable[[], Float[Tensor, "n d"]] | None = None


@dataclass(frozen=True)
class HeldInputs:
    """Batches of held-out samples, rendered anew each time they are walked through.

    Attributes
    ----------
    model, at
        The model that was harvested, and the hook.
    samples
        What is spliced, in order.
    text
        Whether samples are token ids, of any length, or pictures of one size.
    tokens
        Of a picture: its tokens on the grid. What a model puts before them is not replaced.
    size
        Samples a batch.
    """

    model: HookedModel
    at: str
    samples: Sequence[Held]
    text: bool
    tokens: int
    size: int

    def __iter__(self) -> Iterator[SpliceBatch]:
        """Batches in order."""
        groups: dict[str, int] = {}
        for start in range(0, len(self.samples), self.size):
            held = self.samples[start : start + self.size]
            group = torch.tensor([groups.setdefault(sample.group, len(groups)) for sample in held])
            inputs = [sample.render() for sample in held]
            if self.text:
                x: Any = {name: part.to(self.model.device) for name, part in _padded(inputs).items()}
                length, special = x["input_ids"].shape[1], 0
            else:
                x = torch.stack(inputs).to(self.model.device)
                tokens = self.model.run(x, at=self.at)
                length = tokens.shape[1]
                special = length - self.tokens
                _check_same(held, tokens, special)
            keep = torch.zeros(len(held), length, dtype=torch.bool)
            for row, sample in zip(keep, held, strict=True):
                row[sample.positions + special] = True
            yield SpliceBatch(x, keep, group)


def held_inputs(
    store: ActivationStore, split: str, model: HookedModel, source: Any = None, limit: int | None = None, size: int = 8
) -> HeldInputs:
    """Find the inputs behind the held-out samples of a store.

    Parameters
    ----------
    store, split
        Which samples; of training text the store keeps no token ids.
    model
        The model that was harvested, in the same state.
    source
        The pictures that were harvested. Text needs none.
    limit
        Take at most so many samples, spread evenly.
    size
        Samples a batch.
    """
    made, at = store.manifest["model"], store.manifest["hook"]
    if (model.name, model.revision) != (made["name"], made["revision"]):
        got = f"{model.name}, revision {model.revision[:12]}"
        raise refuse("model", f"be the one harvested, {made['name']}, {made['revision'][:12]}", got, "Open that one.")
    text = store.manifest["text"] is not None
    samples = _windows(store, split) if text else _pictures(store, split, model, source)
    samples = [sample for sample in samples if len(sample.positions)]
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise refuse("spliced", "be a positive integer, or None for all", repr(limit), "It counts samples.")
    if limit is not None and limit < len(samples):
        samples = [samples[i * len(samples) // limit] for i in range(limit)]
    height, width = (1, 0) if text or store.grid is None else store.grid
    return HeldInputs(model, at, samples, text, height * width, size)


def _windows(store: ActivationStore, split: str) -> list[Held]:
    return [Held(lambda ids=window.input_ids: ids, window.positions, window.group) for window in store.windows(split)]


def _pictures(store: ActivationStore, split: str, model: HookedModel, source: Any) -> list[Held]:
    if source is None:
        raise refuse("source", "be given with a model and a store of pictures", "none", "Pass what was harvested.")
    pictures = as_source(source)
    place = {entry.id: i for i, entry in enumerate(pictures.entries)}
    if missing := [id for id in store.samples(split) if id not in place]:
        got = f"none called {missing[0]!r}"
        raise refuse("source", "hold the samples of the store", got, "Pass what was harvested.")

    def held(id: str) -> Held:
        sample = store.sample(id)
        rows = lambda: store.sample(id).rows  # noqa: E731 (read when they are needed, not held)
        return Held(lambda: model_input(model, pictures[place[id]]), sample.positions, sample.group, rows)

    return [held(id) for id in store.samples(split)]


def _check_same(held: Sequence[Held], tokens: Float[Tensor, "B T d"], special: int) -> None:
    """Refuse pictures that are not those behind the rows: under the same names, others may even be training ones."""
    for sample, there in zip(held, tokens, strict=True):
        if sample.rows is None:
            continue
        rows, reach = sample.rows(), sample.positions + special
        here = there.cpu().double()[reach] if int(reach.max()) < len(there) else None
        if here is None or (here - rows).norm() > CHANGED * rows.double().norm().clamp_min(1e-30):
            got = f"another picture for a sample of group {sample.group!r}"
            raise refuse("source", "hold the pictures that were harvested", got, "Pass what was harvested, unchanged.")


def _padded(windows: Sequence[Tensor]) -> dict[str, Tensor]:
    """Token ids padded on the right, and the mask of the real ones."""
    ids = torch.nn.utils.rnn.pad_sequence(list(windows), batch_first=True)
    lengths = torch.tensor([len(window) for window in windows])
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}
