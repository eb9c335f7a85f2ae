"""Everything a page shows of one featurizer on one store, gathered into a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from monoseme.api.fitting import ORIGIN
from monoseme.core.files import read_json
from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.evaluation import Evaluation, gallery
from monoseme.featurizers import Featurizer
from monoseme.learning import read_log
from monoseme.records import Comparison, Curve, Histogram, OutcomeGroup, RunRecord, SampleView
from monoseme.store import ActivationStore

__all__ = ["describe"]

FITTED = "featurizer"  # name of the fit whose curves are drawn


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
        "Trained on": _rows(m, "train"),
        "Held out": _rows(m, "test"),
        "Validation": _rows(m, "validation"),
        "Featurizer": f"{featurizer.recipe['name']}, {sizes}",
        "Settings": ", ".join(f"{key} {value}" for key, value in rest.items()),
        "Training": str(made.get("training", "not known")),
        "Versions": f"monoseme {version('monoseme')}, torch {version('torch')}",
    }


def _rows(manifest: Mapping[str, Any], split: str) -> str:
    rows, samples = manifest["rows"][split], manifest["samples"][split]
    return f"{rows:,} {plural(rows, 'rows')} of {samples:,} {plural(samples, 'samples')}"


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
    # of several fits in one pass, the first is the one that `load(run)` gives
    lines = [line for line in read_log(run / "log.jsonl") if line.get("object", FITTED) == FITTED]
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
