"""Fit a featurizer on any kind of data, and measure it on held-out samples."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor

from monoseme.api.splicing import held_inputs
from monoseme.core.errors import UserError, refuse
from monoseme.core.files import read_json, write_json
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import ArrayRows, RowSource, as_rows
from monoseme.evaluation import Evaluation, recover, splice
from monoseme.evaluation import evaluate as evaluate_rows
from monoseme.featurizers import Featurizer, FitResult
from monoseme.featurizers import fit as fit_rows
from monoseme.models import HookedModel, open_model
from monoseme.store import ActivationStore
from monoseme.store.remote import is_url
from monoseme.worlds import Sample, World

__all__ = ["ORIGIN", "Data", "evaluate", "fit", "rows_of", "store_of"]

Data = ActivationStore | RowSource | Sample | Tensor | np.ndarray
ORIGIN = "origin.json"  # in a run: where its rows came from


def rows_of(data: Data, split: str = "train") -> RowSource:
    """Return the rows behind any kind of data."""
    if isinstance(data, ActivationStore):
        return data.rows(split)
    if isinstance(data, Sample):
        return ArrayRows(data.x)
    return as_rows(data)


@overload
def fit(featurizer: Featurizer, data: Data, *, out: str | Path | None = None, **options: Any) -> FitResult: ...
@overload
def fit(
    featurizer: Mapping[str, Featurizer], data: Data, *, out: str | Path | None = None, **options: Any
) -> dict[str, FitResult]: ...
def fit(
    featurizer: Featurizer | Mapping[str, Featurizer], data: Data, *, out: str | Path | None = None, **options: Any
) -> FitResult | dict[str, FitResult]:
    """Train a featurizer in place, or several by name from one pass over the data.

    Parameters
    ----------
    featurizer
        From the zoo, for example ``ms.featurizers.TopK(d_in=384, n_blocks=2048, k=16)``; or several, name → featurizer.
    data
        A store (its training split; gates are calibrated on its validation split), rows in memory (n, d_in), a sample
        of a world, or any `RowSource`.
    out
        Folder for log, checkpoints and the trained featurizer; ``None`` writes nothing.
    options
        `steps`, `batch_size`, `lr`, `seed`, `resume`, `lam`, `aux`, ...: see `featurizers.fit`.

    Returns
    -------
    FitResult or dict of FitResult
        `featurizer`, `history`, `path`; as the featurizers came.
    """
    if isinstance(data, ActivationStore) and data.manifest["rows"]["validation"]:
        options.setdefault("held_out", data.rows("validation"))
    result = fit_rows(featurizer, rows_of(data), out=out, **options)
    if out is not None and isinstance(data, ActivationStore):
        # a path is relative, so that run and store may be moved together
        store = data.url or os.path.relpath(data.path.resolve(), Path(out).resolve())
        write_json(Path(out) / ORIGIN, {"store": store, "training": _settings(options)})
    return result


def _settings(options: Mapping[str, Any]) -> str:
    """How a fit was made, defaults included, as text for its page."""
    plain = {name: p.default for name, p in inspect.signature(fit_rows).parameters.items() if p.default is not p.empty}
    hidden = ("out", "resume", "held_out", "progress", "log_every", "checkpoint_every", "schedule")
    shown = {name: value for name, value in (plain | dict(options)).items() if name not in hidden}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def store_of(run: str | Path) -> ActivationStore:
    """Open the store that a run was fitted on, in its folder or at its URL."""
    origin = Path(run) / ORIGIN
    if not origin.exists():
        raise refuse("run", "have been fitted on a store", run, "Name the store: --store FOLDER.")
    place = Entry(read_json(origin), str(origin)).get("store", str)
    try:
        return ActivationStore.open(place if is_url(place) else Path(run) / place)
    except UserError:
        if not place.startswith("memory://"):
            raise
        fix = "memory:// dies with its process: harvest into a folder, and name it: --store FOLDER."
        raise refuse("store", "outlive the process that harvested it", place, fix) from None


def evaluate(
    featurizer: Featurizes,
    data: Data,
    split: str = "test",
    *,
    world: World | None = None,
    model: str | HookedModel | None = None,
    source: Any = None,
    spliced: int | None = None,
    refine: Refine = None,
    seed: int = 0,
) -> Evaluation:
    """Measure a featurizer on held-out samples.

    Parameters
    ----------
    featurizer
        Anything with `encode`, `decode`, `atoms`, `bias`.
    data
        A store (the split `split`), a sample of a world, rows in memory, or any `RowSource`.
    world
        The world that `data`, a sample of it, was drawn from: adds recovery of its factors. A `worlds.Sample` carries
        its world, so it need not be named.
    model
        The model that was harvested, or its name: adds what its output loses when reconstructions are put back (see
        `evaluation.splice`). Ablation is the mean of the training rows.
    source
        The pictures that were harvested, which the splice needs; of text the store keeps the tokens.
    spliced
        Samples to splice, spread evenly over the split; all by default.
    refine
        ``"ls"`` or ``"omp"`` refines codes at inference.
    seed
        Of the bootstrap.

    Returns
    -------
    Evaluation
        Name → `Outcome`; ``print(result.table())``.
    """
    if model is not None and not isinstance(data, ActivationStore):
        raise refuse("data", "be a store, when a model is given", type(data).__name__, "Harvest the model first.")
    if world is not None and (not isinstance(data, Sample) or data.world is not world):
        raise refuse("data", "be a sample of the given world", type(data).__name__, "Pass world.sample(n, seed=1).")
    unit, provenance, groups = "rows", {}, None
    if isinstance(data, ActivationStore):
        unit = "documents" if data.manifest["text"] is not None else "groups of samples"
        groups = data.groups
        provenance = {"split": split, "hook": data.manifest["hook"], **data.manifest["model"]}
    rows = rows_of(data, split)
    given: dict[str, Any] = {"refine": refine, "samples": unit, "groups": groups, "seed": seed}
    result = evaluate_rows(featurizer, rows, provenance=provenance, **given)
    if isinstance(data, Sample):
        result = result.including(recover(featurizer, data, refine, seed=seed).outcomes)
    if model is not None:
        assert isinstance(data, ActivationStore)
        result = result.including(_spliced(featurizer, data, split, open_model(model), source, spliced, refine, seed))
    return result


def _spliced(
    featurizer: Featurizes,
    store: ActivationStore,
    split: str,
    model: HookedModel,
    source: Any,
    limit: int | None,
    refine: Refine,
    seed: int,
) -> list[Outcome]:
    inputs = held_inputs(store, split, model, source, limit)
    mean, unit = store.rows("train").moments.mean.float(), "documents" if inputs.text else "pictures"
    at = store.manifest["hook"]
    found = splice(featurizer, model, at, inputs, baseline=mean, refine=refine, samples=unit, seed=seed)
    return list(found.values())
