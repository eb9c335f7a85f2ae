"""`harvest`: a model's activations on disk, split by sample before a row exists, shuffled, checked, resumable."""

from __future__ import annotations

import platform
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.files import (
    check_space,
    explain_full_disk,
    only_writer,
    read_json,
    sha256,
    sweep,
    write_json,
    write_tensors,
)
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, open_model
from monoseme.store.inputs import activations, model_input
from monoseme.store.manifest import FORMAT, TABLES, VERSION
from monoseme.store.plan import Plan, Recipe, differences, make_plan, not_finite
from monoseme.store.sealed import describe_shards
from monoseme.store.sources import Sample, as_source
from monoseme.store.store import ActivationStore
from monoseme.store.streams import Streams
from monoseme.store.thumbnails import mask_path, render, thumbnail_path

__all__ = ["Progress", "harvest"]

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


def harvest(
    model: str | nn.Module | HookedModel,
    data: Any,
    at: str,
    out: str | Path,
    *,
    split: tuple[float, float, float] | None = None,
    seed: int = 0,
    dtype: str = "float32",
    batch_size: int = 16,
    tokens: str = "patches",
    shard_rows: int = 65_536,
    progress: Callable[[Progress], None] | None = None,
) -> ActivationStore:
    """Run a model over samples and store the activations at one hook.

    A run that was killed goes on where it stopped when the same call is made again, and ends in the same bytes. A
    finished store that answers the same request is returned as it is.

    Parameters
    ----------
    model
        A name, a module, or a `HookedModel`.
    data
        A `Source` (`PictureFolder`, `composites`, ...), a sequence of `Sample`, or an indexable of tensors that are
        inputs of the model without their batch axis. All samples must give equally many tokens.
    at
        Hook name; see `HookedModel.hooks`.
    out
        Folder of the store: new, empty, or the same store unfinished.
    split, seed, dtype, batch_size, tokens, shard_rows
        See `Recipe`.
    progress
        Called after every batch.

    Returns
    -------
    ActivationStore
        Open for reading.

    Raises
    ------
    UserError
        For bad arguments, activations that are not finite (sample and token named), or a folder in other use.
    OSError
        When the disk has too little room, before the start or on the way.
    """
    recipe = Recipe(at, split, seed, dtype, batch_size, tokens, shard_rows)
    hooked, folder = open_model(model), Path(out)
    plan = make_plan(hooked, as_source(data), recipe)
    with only_writer(folder), explain_full_disk(folder):
        if not _complete(folder, plan):
            _fill(hooked, plan, folder, progress)
        shutil.rmtree(folder / WORK, ignore_errors=True)
    return ActivationStore.open(folder)


def _complete(folder: Path, plan: Plan) -> bool:
    """Whether the folder holds this very store; raise when it holds anything that must not be overwritten."""
    manifest, begun = folder / "manifest.json", folder / WORK / "request.json"
    if manifest.exists() or begun.exists():
        found = read_json(manifest if manifest.exists() else begun)
        request = found.get("request") if manifest.exists() and isinstance(found, dict) else found
        if not isinstance(request, dict):
            raise refuse("out", "be a new folder", f"{folder} with another {manifest.name}", "Choose another folder.")
        if names := differences(plan.request, request):
            raise refuse(
                "out",
                "be a new folder, or hold the same harvest",
                f"{folder}, which differs in {', '.join(names)}",
                "Choose another folder, or delete this one.",
            )
        return manifest.exists()
    foreign = [path.name for path in folder.iterdir() if path.name not in (".lock", WORK)]
    if foreign:
        raise refuse("out", "be a new or empty folder", f"{folder} with {foreign[0]}", "Choose another folder.")
    return False


def _fill(model: HookedModel, plan: Plan, folder: Path, progress: Callable[[Progress], None] | None) -> None:
    """Deal all rows to streams, seal the streams, and write the manifest last."""
    sweep(folder)
    work = folder / WORK
    journal = read_json(work / "journal.json") if (work / "journal.json").exists() else None
    predicted = plan.predict_bytes()
    if journal is None:
        check_space(folder, predicted + plan.recipe.shard_rows * plan.d_in * 4)
        write_json(work / "request.json", plan.request)
        write_json(folder / "samples.json", plan.samples_json)
    for name in ("thumbnails", "masks"):
        (folder / name).mkdir(exist_ok=True)
    streams = Streams(work, plan.streams, plan.d_in, plan.dtype)
    if journal is None or not journal["sealing"]:
        streams.rewind([0] * len(plan.streams) if journal is None else journal["rows"])
        _deal(model, plan, folder, streams, journal["samples"] if journal else 0, progress)
    for name in plan.streams:
        permute = generator(plan.recipe.seed, "seal", name) if name.startswith("train-") else None
        streams.seal(name, folder / f"{name}.safetensors", permute)
    _finish(model, plan, folder, predicted)


def _deal(
    model: HookedModel,
    plan: Plan,
    folder: Path,
    streams: Streams,
    done: int,
    progress: Callable[[Progress], None] | None,
) -> None:
    started, last, begun_at = time.monotonic(), time.monotonic(), done
    total = len(plan.order)
    for first, x in _batches(model, plan, folder, done):
        append(plan, streams, first, activations(model, x, plan.recipe.at))
        done = first + len(x)
        if time.monotonic() - last >= COMMIT_SECONDS or done == total:
            streams.sync()
            journal = {"samples": done, "rows": streams.rows, "sealing": done == total}
            write_json(folder / WORK / "journal.json", journal)
            last = time.monotonic()
        if progress is not None:
            seconds = max(time.monotonic() - started, 1e-9)
            rate = (done - begun_at) / seconds
            rows = (done - begun_at) * plan.tokens
            progress(Progress(done, total, rows, rows / seconds, (total - done) / rate))


def append(plan: Plan, streams: Streams, first: int, tokens: Tensor) -> None:
    """Deal the activations of one batch, whose first sample is number `first`, to the streams."""
    if tokens.shape[1] != plan.tokens + plan.special or tokens.shape[2] != plan.d_in:
        entry = plan.source.entries[plan.order[first]]
        raise refuse(
            "data",
            f"give {plan.tokens + plan.special} tokens of width {plan.d_in} a sample, as the first one does",
            f"{tuple(tokens.shape[1:])} from {entry.id!r} on",
            "Bring all samples to one size.",
        )
    kept = tokens[:, plan.special :].cpu()
    stored = kept.to(plan.dtype)
    if not stored.isfinite().all():
        raise not_finite(plan, first, kept, stored)
    numbers = torch.arange(first, first + len(kept))
    stream = torch.cat([plan.stream_of(int(i)) for i in numbers])
    sample = numbers.repeat_interleave(plan.tokens)
    position = torch.arange(plan.tokens).repeat(len(kept))
    key = torch.stack([sample, position], 1).to(torch.int32)
    streams.append(stream, stored.reshape(-1, plan.d_in), key)


def _batches(model: HookedModel, plan: Plan, folder: Path, done: int) -> Iterator[tuple[int, Shaped[Tensor, "B ..."]]]:
    """Inputs in order from sample `done` on; the next batch is rendered in a thread while the model runs."""
    starts = list(range(done, len(plan.order), plan.recipe.batch_size))

    def load(first: int) -> Tensor:
        numbers = range(first, min(first + plan.recipe.batch_size, len(plan.order)))
        return _stack(plan, first, [_load(model, plan, folder, number) for number in numbers])

    with ThreadPoolExecutor(1) as pool:
        ahead = deque(pool.submit(load, first) for first in starts[:1])
        for first, following in zip_longest(starts, starts[1:]):
            x = ahead.popleft().result()
            if following is not None:
                ahead.append(pool.submit(load, following))
            yield first, x


def _load(model: HookedModel, plan: Plan, folder: Path, number: int) -> Tensor:
    """Render sample `number`; a held-out one leaves its thumbnail and mask behind."""
    item = plan.source[plan.order[number]]
    if isinstance(item, Sample) and plan.splits[number] != "train":
        thumbnail, mask = render(item, plan.grid)
        thumbnail_path(folder, number).write_bytes(thumbnail)
        if mask is not None:
            mask_path(folder, number).write_bytes(mask)
    return model_input(model, item)


def _stack(plan: Plan, first: int, inputs: list[Tensor]) -> Tensor:
    for offset, x in enumerate(inputs):
        if x.shape != inputs[0].shape:
            entry = plan.source.entries[plan.order[first + offset]]
            raise refuse(
                "data", f"hold samples of one shape, {tuple(inputs[0].shape)}",
                f"{tuple(x.shape)} in {entry.id!r}", "Resize, crop or pad them.",
            )  # fmt: skip
    return torch.stack(inputs)


def _finish(model: HookedModel, plan: Plan, folder: Path, predicted: int) -> None:
    shards, moments, numbers = describe_shards(folder, plan.streams)
    tensors = {}
    for split, moment in moments.items():
        tensors |= {f"{split}.mean": moment.mean, f"{split}.centred": moment.centred}
    write_tensors(folder / "moments.safetensors", tensors)
    payload = [path for path in folder.rglob("*") if path.is_file() and WORK not in path.parts and path.name != ".lock"]
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "request": plan.request,
        "model": {"name": model.name, "weights": model.facts.weights, "revision": model.revision},
        "caveat": model.caveat,
        "hook": plan.recipe.at,
        "tokens": {"policy": plan.recipe.tokens, "special_dropped": plan.special, "per_sample": plan.tokens},
        "grid": list(plan.grid),
        "dtype": plan.recipe.dtype,
        "d_in": plan.d_in,
        "samples": plan.counts,
        "rows": {name: count * plan.tokens for name, count in plan.counts.items()},
        "shards": shards,
        "tables": {name: sha256(folder / name) for name in TABLES},
        "train": numbers,
        "bytes": {"predicted": predicted, "actual": sum(path.stat().st_size for path in payload)},
        "versions": {
            "monoseme": version("monoseme"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    write_json(folder / "manifest.json", manifest)
