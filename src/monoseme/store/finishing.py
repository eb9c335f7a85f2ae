"""The last step of a harvest: tables, statistics, and the manifest, which makes the folder a store."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monoseme.core.files import sha256, write_json, write_tensors
from monoseme.models import HookedModel
from monoseme.store.dealing import WORK
from monoseme.store.heldtext import TEXT, text_tensors
from monoseme.store.manifest import FORMAT, TABLES, VERSION
from monoseme.store.plan import Plan
from monoseme.store.sealed import Sealed, describe_shards

__all__ = ["finish"]

NAMED = 10  # skipped files named in the manifest


def finish(model: HookedModel, plan: Plan, folder: Path, predicted: int, skipped: list[tuple[str, str]]) -> None:
    """Write the tables of sealed shards, then the manifest."""
    sealed = describe_shards(folder, plan.streams, len(plan.order))
    write_json(folder / "samples.json", plan.samples_json(sealed.rows))
    tensors = {}
    for split, moment in sealed.moments.items():
        tensors |= {f"{split}.mean": moment.mean, f"{split}.centred": moment.centred}
    write_tensors(folder / "moments.safetensors", tensors)
    held = plan.order[plan.first_held :]
    if plan.text is not None and held:
        write_tensors(folder / TEXT, text_tensors(plan.text, held))
    write_json(folder / "manifest.json", _manifest(model, plan, folder, sealed, skipped, predicted))


def _manifest(
    model: HookedModel,
    plan: Plan,
    folder: Path,
    sealed: Sealed,
    skipped: list[tuple[str, str]],
    predicted: int,
) -> dict[str, Any]:
    payload = [path for path in folder.rglob("*") if path.is_file() and WORK not in path.parts and path.name != ".lock"]
    grids = set(plan.layout.grids)
    return {
        "format": FORMAT,
        "version": VERSION,
        "request": plan.request,
        "model": {"name": model.name, "weights": model.facts.weights, "revision": model.revision},
        "caveat": model.caveat,
        "hook": plan.recipe.at,
        "tokens": _tokens(plan, sealed.rows),
        "text": None if plan.text is None else plan.text.facts,
        "skipped": {"count": len(skipped), "first": [list(pair) for pair in skipped[:NAMED]]},
        "grid": list(grids.pop()) if len(grids) == 1 else None,
        "dtype": plan.recipe.dtype,
        "d_in": plan.d_in,
        "samples": plan.counts,
        "rows": plan.total(sealed.rows),
        "pictures": {name: sum(1 for _ in (folder / name).glob("*")) for name in ("thumbnails", "masks")},
        "shards": sealed.shards,
        "tables": {name: sha256(folder / name) for name in TABLES if (folder / name).exists()},
        "train": sealed.numbers,
        "bytes": {"predicted": predicted, "actual": sum(path.stat().st_size for path in payload)},
        "versions": {
            "monoseme": version("monoseme"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def _tokens(plan: Plan, rows: np.ndarray) -> dict[str, Any]:
    """Where every token of the samples went: seen = rows + special + outside + high_norm, split by split."""
    layout = plan.layout
    counted = {"seen": layout.seen, "special": layout.special, "outside": layout.outside}
    return {
        "policy": asdict(plan.recipe.policy),
        "norm": None if plan.limit is None else plan.limit.facts,
        **{name: plan.total(counts) for name, counts in counted.items()},
        "high_norm": plan.total(layout.rows - rows),
    }
