"""`harvest`: a model's activations on disk, split by sample before a row exists, shuffled, checked, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from monoseme.core.errors import refuse
from monoseme.core.files import check_space, explain_full_disk, only_writer, read_json, sweep, write_json
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, open_model
from monoseme.store.dealing import WORK, Progress, deal
from monoseme.store.finishing import finish
from monoseme.store.plan import Plan, differences
from monoseme.store.planning import make_plan
from monoseme.store.policy import TokenPolicy
from monoseme.store.recipe import Recipe
from monoseme.store.remote import Remote, is_url
from monoseme.store.store import ActivationStore
from monoseme.store.streams import Streams

__all__ = ["harvest"]


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
    tokens: TokenPolicy | str = "patches",
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
        A `Source` (`PictureFolder`, `TextFolder`, `composites`, ...), a sequence of `Sample`, of texts, of token ids
        with their masks, or an indexable of tensors that are inputs of the model without their batch axis. Pictures and
        tensors must give equally many tokens; texts need not.
    at
        Hook name; see `HookedModel.hooks`.
    out
        Folder of the store: new, empty, or the same store unfinished. Or a URL that fsspec opens (``s3://...``): the
        harvest is then made in the cache folder and published when it is whole.
    split, seed, dtype, batch_size, tokens, shard_rows
        See `Recipe`, and `TokenPolicy` for `tokens`.
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
    hooked = open_model(model)
    plan = make_plan(hooked, data, recipe)
    remote = Remote(str(out), "out") if is_url(out) else None
    if remote is None:
        folder = Path(out)
    elif (request := remote.request()) is None:
        folder = remote.work
    else:
        _check_same(plan, request, remote.url)
        return ActivationStore.open(remote.url)
    with only_writer(folder), explain_full_disk(folder):
        if not _complete(folder, plan):
            _fill(hooked, plan, folder, list(getattr(data, "skipped", [])), progress)
        shutil.rmtree(folder / WORK, ignore_errors=True)
        if remote is not None:
            remote.publish(folder)
            remote.keep(folder)
    return ActivationStore.open(folder if remote is None else remote.url)


def _complete(folder: Path, plan: Plan) -> bool:
    """Whether the folder holds this very store; raise when it holds anything that must not be overwritten."""
    manifest, begun = folder / "manifest.json", folder / WORK / "request.json"
    if manifest.exists() or begun.exists():
        found = read_json(manifest if manifest.exists() else begun)
        request = found.get("request") if manifest.exists() and isinstance(found, dict) else found
        if not isinstance(request, dict):
            raise refuse("out", "be a new folder", f"{folder} with another {manifest.name}", "Choose another folder.")
        _check_same(plan, request, folder)
        return manifest.exists()
    foreign = [path.name for path in folder.iterdir() if path.name not in (".lock", WORK)]
    if foreign:
        raise refuse("out", "be a new or empty folder", f"{folder} with {foreign[0]}", "Choose another folder.")
    return False


def _check_same(plan: Plan, request: dict[str, Any], where: object) -> None:
    if names := differences(plan.request, request):
        raise refuse(
            "out",
            "be a new folder, or hold the same harvest",
            f"{where}, which differs in {', '.join(names)}",
            "Choose another folder, or delete this one.",
        )


def _fill(
    model: HookedModel,
    plan: Plan,
    folder: Path,
    skipped: list[tuple[str, str]],
    progress: Callable[[Progress], None] | None,
) -> None:
    """Deal all rows to streams, seal the streams, and write the manifest last."""
    sweep(folder)
    work = folder / WORK
    journal = read_json(work / "journal.json") if (work / "journal.json").exists() else None
    predicted = plan.predict_bytes()
    if journal is None:
        check_space(folder, predicted + plan.recipe.shard_rows * plan.d_in * 4)
        write_json(work / "request.json", plan.request)
    for name in ("thumbnails", "masks"):
        (folder / name).mkdir(exist_ok=True)
    streams = Streams(work, plan.streams, plan.d_in, plan.dtype)
    if journal is None or not journal["sealing"]:
        streams.rewind([0] * len(plan.streams) if journal is None else journal["rows"])
        deal(model, plan, folder, streams, journal["samples"] if journal else 0, progress)
    for name in plan.streams:
        permute = generator(plan.recipe.seed, "seal", name) if name.startswith("train-") else None
        streams.seal(name, folder / f"{name}.safetensors", permute)
    finish(model, plan, folder, predicted, skipped)
