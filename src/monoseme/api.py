"""The only file that joins rooms: what `import monoseme as ms` offers, verb by verb.

model + data ─harvest▶ store ─fit▶ featurizer ─evaluate▶ numbers ─page▶ something to look at
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import read_json, write_json
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.parse import Entry
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import ArrayRows, RowSource, as_rows
from monoseme.evaluation import Evaluation, gallery, recover
from monoseme.evaluation import evaluate as evaluate_rows
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer, FitResult, load
from monoseme.featurizers import fit as fit_rows
from monoseme.learning import read_log
from monoseme.models import HookedModel, open_model
from monoseme.records import Comparison, Curve, Histogram, OutcomeGroup, RunRecord, SampleView
from monoseme.store import ActivationStore, harvest
from monoseme.store.remote import is_url
from monoseme.worlds import Sample, World

__all__ = [
    "ActivationStore",
    "Evaluation",
    "FitResult",
    "describe",
    "evaluate",
    "fit",
    "harvest",
    "load",
    "open_model",
    "page",
    "rows_of",
    "store_of",
]

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
        A store (its training split), rows in memory (n, d_in), a sample of a world, or any `RowSource`.
    out
        Folder for log, checkpoints and the trained featurizer; ``None`` writes nothing.
    options
        `steps`, `batch_size`, `lr`, `seed`, `resume`, `lam`, `aux`, ...: see `featurizers.fit`.

    Returns
    -------
    FitResult or dict of FitResult
        `featurizer`, `history`, `path`; as the featurizers came.
    """
    result = fit_rows(featurizer, rows_of(data), out=out, **options)
    if out is not None and isinstance(data, ActivationStore):
        # a path is relative, so that run and store may be moved together
        store = data.url or os.path.relpath(data.path.resolve(), Path(out).resolve())
        write_json(Path(out) / ORIGIN, {"store": store, "training": _settings(options)})
    return result


def _settings(options: Mapping[str, Any]) -> str:
    """How a fit was made, defaults included, as text for its page."""
    plain = {name: p.default for name, p in inspect.signature(fit_rows).parameters.items() if p.default is not p.empty}
    hidden = ("out", "resume", "progress", "log_every", "checkpoint_every", "schedule")
    shown = {name: value for name, value in (plain | dict(options)).items() if name not in hidden}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def store_of(run: str | Path) -> ActivationStore:
    """Open the store that a run was fitted on, in its folder or at its URL."""
    origin = Path(run) / ORIGIN
    if not origin.exists():
        raise refuse("run", "have been fitted on a store", run, "Name the store: --store FOLDER.")
    place = Entry(read_json(origin), str(origin)).get("store", str)
    return ActivationStore.open(place if is_url(place) else Path(run) / place)


def evaluate(
    featurizer: Featurizes,
    data: Data,
    split: str = "test",
    *,
    world: World | None = None,
    model: HookedModel | None = None,
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
        The model that was harvested: asks for the loss recovered when the reconstruction is put back.
    refine
        ``"ls"`` or ``"omp"`` refines codes at inference.
    seed
        Of the bootstrap.

    Returns
    -------
    Evaluation
        Name → `Outcome`; ``print(result.table())``.
    """
    if world is not None and (not isinstance(data, Sample) or data.world is not world):
        raise refuse("data", "be a sample of the given world", type(data).__name__, "Pass world.sample(n, seed=1).")
    unit, provenance = "rows", {}
    if isinstance(data, ActivationStore):
        unit, provenance = "samples", {"split": split, "hook": data.manifest["hook"], **data.manifest["model"]}
    rows = rows_of(data, split)
    result = evaluate_rows(featurizer, rows, refine=refine, samples=unit, seed=seed, provenance=provenance)
    if isinstance(data, Sample):
        result = result.including(recover(featurizer, data, refine, seed=seed).outcomes)
    if model is not None:
        result = result.including([unknown("loss_recovered", "1", "not computed: the splice is not built yet")])
    return result


def page(
    run: str | Path | Featurizer,
    store: ActivationStore | None = None,
    *,
    out: str | Path | None = None,
    controls: Mapping[str, Evaluation] | None = None,
    evaluation: Evaluation | None = None,
    title: str = "",
) -> Path:
    """Make the pages of a run: its numbers, curves, and one card a block. Returns the path of index.html.

    Parameters
    ----------
    run
        Folder of a fit, or a featurizer (then `store` and `out` are needed).
    store
        Where the held-out samples lie; the run's own by default.
    out
        Folder for record and pages; the run's own by default.
    controls
        The same measurements on controls, by name, shown beside this run's.
    evaluation
        Numbers measured already; computed on the test split otherwise.
    title
        Heading of the page.
    """
    featurizer = run if isinstance(run, Featurizer) else load(run)
    if isinstance(run, Featurizer) and (store is None or out is None):
        raise refuse("store and out", "be given with a featurizer", "none", "Or pass the folder of a run.")
    held = store or store_of(run)  # pyright: ignore[reportArgumentType]
    folder = Path(out if out is not None else run)  # pyright: ignore[reportArgumentType]
    numbers = evaluation or evaluate(featurizer, held)
    fitted = None if isinstance(run, Featurizer) else Path(run)
    record = describe(featurizer, held, numbers, run=fitted, controls=controls or {}, title=title)
    record.save(folder)
    return write_pages(record, folder / "pages", lambda sample: held.sample(sample).thumbnail)


def describe(
    featurizer: Featurizer,
    store: ActivationStore,
    numbers: Evaluation,
    *,
    run: Path | None = None,
    controls: Mapping[str, Evaluation] | None = None,
    title: str = "",
) -> RunRecord:
    """Gather everything a page shows of one featurizer on one store, and of the run that made it, if it is there."""
    manifest, name = store.manifest, str(featurizer.recipe["name"])
    cards = gallery(featurizer, store)
    shown = {view.sample for card in cards for view in card.shown}
    return RunRecord(
        title=title or f"{name} on {manifest['model']['name']}, {manifest['hook']}",
        kind="fit",
        facts=_facts(featurizer, store, run),
        outcomes=(OutcomeGroup("On held-out samples", tuple(numbers.outcomes)),),
        comparisons=_comparisons(numbers, controls or {}),
        curves=_curves(run),
        histograms=(_densities(numbers.density),),
        cards=tuple(cards),
        samples={sample: _view(store, sample) for sample in sorted(shown)},
        notes=tuple(note for note in (manifest["caveat"],) if note),
    )


def _facts(featurizer: Featurizer, store: ActivationStore, run: Path | None) -> dict[str, str]:
    m, arguments = store.manifest, featurizer.recipe["arguments"]
    sizes = f"{featurizer.n_blocks:,} blocks of size {featurizer.block_size}"
    rest = {k: v for k, v in arguments.items() if k not in ("d_in", "n_blocks", "block_size")}
    made = read_json(run / ORIGIN) if run is not None and (run / ORIGIN).exists() else {}
    return {
        "Model": f"{m['model']['name']} ({m['model']['weights']})",
        "Hook": m["hook"],
        "Trained on": f"{m['rows']['train']:,} rows of {m['samples']['train']:,} samples",
        "Held out": f"{m['rows']['test']:,} rows of {m['samples']['test']:,} samples",
        "Validation": f"{m['rows']['validation']:,} rows of {m['samples']['validation']:,} samples",
        "Featurizer": f"{featurizer.recipe['name']}, {sizes}",
        "Settings": ", ".join(f"{key} {value}" for key, value in rest.items()),
        "Training": str(made.get("training", "not known")),
        "Versions": f"monoseme {version('monoseme')}, torch {version('torch')}",
    }


def _comparisons(numbers: Evaluation, controls: Mapping[str, Evaluation]) -> tuple[Comparison, ...]:
    if not controls:
        return ()
    runs = {"this run": numbers, **controls}
    names = list(numbers)
    rows: list[tuple[Outcome | str, ...]] = [
        (run, *(e[name] if name in e else unknown(name, numbers[name].unit, "not computed") for name in names))
        for run, e in runs.items()
    ]
    note = (
        "The same fit, with the same settings, on the control's activations. FVU across different activations says how "
        "compressible they are, not whether parts mean something: a control may well have the lower one."
    )
    return (Comparison("Beside the controls", ("", *names), tuple(rows), note),)


def _curves(run: Path | None) -> tuple[Curve, ...]:
    if run is None or not (run / "log.jsonl").exists():
        return ()
    lines = read_log(run / "log.jsonl")
    curves = []
    for name, unit in (
        ("loss", "training units"),
        ("fvu", "on training batches"),
        ("l0", "blocks/row"),
        ("dead", "share"),
    ):
        points = [(line["step"], line[name]) for line in lines if isinstance(line.get(name), (int, float))]
        if points:
            x, y = zip(*points, strict=True)
            curves.append(Curve(name, x, y, unit, log_y=name in ("loss", "fvu") and min(y) > 0))
    return tuple(curves)


def _densities(density: Sequence[float] | np.ndarray) -> Histogram:
    values = np.asarray(density, dtype=np.float64)
    alive = np.log10(values[values > 0])
    low = float(np.floor(alive.min() * 4) / 4) if len(alive) else -1.0
    edges = np.arange(low, 0.001, 0.25)
    edges = edges if len(edges) > 1 else np.array([low, low + 0.25])
    counts = np.histogram(alive, edges)[0]
    dead = {"never active": int((values == 0).sum())}
    return Histogram("density", edges.tolist(), counts.tolist(), "share of held-out rows", log10=True, aside=dead)


def _view(store: ActivationStore, sample: str) -> SampleView:
    held = store.sample(sample)
    return SampleView(tokens=held.pieces or (), label=_label(held.target))


def _label(target: Mapping[str, Any] | None) -> str:
    return "" if not target else str(target.get("label", ""))
