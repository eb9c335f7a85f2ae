"""Dealing: every sample through the model, every kept row to its stream, with a journal to go on from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from torch import Tensor

from monoseme.core.files import write_json
from monoseme.models import HookedModel
from monoseme.store.batches import collate, select, stored
from monoseme.store.inputs import activations, model_input
from monoseme.store.plan import Plan
from monoseme.store.sources import Sample
from monoseme.store.streams import Streams
from monoseme.store.thumbnails import mask_path, render, thumbnail_path

__all__ = ["WORK", "Progress", "deal"]

WORK = ".work"  # rows on their way, journal; gone when the store is complete
COMMIT_SECONDS = 5.0  # work lost to a kill, at most


@dataclass(frozen=True)
class Progress:
    """How far a harvest is: samples done and in all, rows written by this run, their rate, seconds left."""

    samples: int
    total: int
    rows: int
    rows_per_s: float
    eta_s: float


def deal(
    model: HookedModel,
    plan: Plan,
    folder: Path,
    streams: Streams,
    done: int,
    progress: Callable[[Progress], None] | None,
) -> None:
    """Deal the rows of all samples from number `done` on."""
    started, last, begun_at, rows_at = time.monotonic(), time.monotonic(), done, sum(streams.rows)
    total = len(plan.order)
    for numbers, x in _batches(model, plan, folder, done):
        rows = stored(plan, select(plan, numbers, activations(model, x, plan.recipe.at)))
        key = torch.stack([rows.sample, rows.position], 1).to(torch.int32)
        streams.append(rows.stream, rows.x, key)
        done = numbers[-1] + 1
        if time.monotonic() - last >= COMMIT_SECONDS or done == total:
            streams.sync()
            journal = {"samples": done, "rows": streams.rows, "sealing": done == total}
            write_json(folder / WORK / "journal.json", journal)
            last = time.monotonic()
        if progress is not None:
            seconds = max(time.monotonic() - started, 1e-9)
            rate, made = (done - begun_at) / seconds, sum(streams.rows) - rows_at
            progress(Progress(done, total, made, made / seconds, (total - done) / rate))


def _batches(
    model: HookedModel, plan: Plan, folder: Path, done: int
) -> Iterator[tuple[Sequence[int], Tensor | dict[str, Tensor]]]:
    """Inputs in order from sample `done` on; the next batch is rendered in a thread while the model runs."""
    size, total = plan.recipe.batch_size, len(plan.order)
    parts = [range(first, min(first + size, total)) for first in range(done, total, size)]

    def load(numbers: Sequence[int]) -> Tensor | dict[str, Tensor]:
        return collate(plan, numbers, [_load(model, plan, folder, number) for number in numbers])

    with ThreadPoolExecutor(1) as pool:
        ahead = deque(pool.submit(load, numbers) for numbers in parts[:1])
        for numbers, following in zip_longest(parts, parts[1:]):
            x = ahead.popleft().result()
            if following is not None:
                ahead.append(pool.submit(load, following))
            yield numbers, x


def _load(model: HookedModel, plan: Plan, folder: Path, number: int) -> Tensor:
    """Render sample `number`; a held-out picture leaves its thumbnail and mask behind."""
    item = plan.source[plan.order[number]]
    if isinstance(item, Sample) and number >= plan.first_held:
        thumbnail, mask = render(item, plan.layout.grids[number])
        thumbnail_path(folder, number).write_bytes(thumbnail)
        if mask is not None:
            mask_path(folder, number).write_bytes(mask)
    return model_input(model, item)
