"""The synthetic world of App. H at the paper's size: blocks, and scalar codes at their best.

Every fit is kept in the work folder, so that a stopped reproduction goes on where it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from monoseme.core.files import read_json, write_json
from monoseme.core.outcome import Outcome
from monoseme.core.protocols import Refine
from monoseme.core.rows import ArrayRows
from monoseme.evaluation import evaluate, recover
from monoseme.featurizers import Featurizer, build, fit
from monoseme.learning import Progress
from monoseme.worlds import Sample, manifolds

__all__ = ["BATCH", "RUNS", "TEST_ROWS", "TRAIN_ROWS", "Run", "measure", "recipe"]

TRAIN_ROWS, TEST_ROWS, BATCH = 300_000, 100_000, 2048


@dataclass(frozen=True)
class Run:
    """One fit on the world."""

    name: str
    species: str
    arguments: Mapping[str, Any]
    epochs: int
    lr: float
    refine: tuple[Refine, ...] = (None,)
    aux: str | None = "dead"


def _scalars(sign: str) -> list[Run]:
    """Both scalar baselines on the same grid, with the rate and the length that the blocks get."""
    return [
        Run(f"topk-{sign}-G{g}-k{k}", "TopK", {"n_blocks": g, "k": k, "sign": sign}, 60, 3e-3)
        for g in (256, 512, 1024)
        for k in (4, 8, 16)
    ]


RUNS = (
    Run("vanilla", "BlockTopK", {"n_blocks": 256, "block_size": 4, "k": 4}, 60, 3e-3, (None, "omp")),
    Run("grassmannian", "Grassmannian", {"n_blocks": 384, "block_size": 3, "k": 4}, 80, 1e-2, (None, "omp")),
    *_scalars("nonneg"),
    *_scalars("free"),
)
# which runs a claim needs
NEEDS = {
    "vanilla": ("vanilla",),
    "grassmannian": ("grassmannian",),
    "scalar": ("topk-free",),
    "scalar-nonneg": ("topk-nonneg",),
    "blocks-beat-scalars": ("vanilla", "topk-free"),
    "pursuit": ("vanilla", "grassmannian"),
}


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    prefixes = {prefix for claim in wanted for prefix in NEEDS[claim]}
    world = manifolds(seed=0)
    test = world.sample(TEST_ROWS, seed=2)
    outcomes: dict[str, Outcome] = {}
    for run in RUNS:
        if any(run.name == prefix or run.name.startswith(f"{prefix}-G") for prefix in prefixes):
            outcomes |= measure(run, work, world.sample(TRAIN_ROWS, seed=1), test)
    for sign in ("nonneg", "free"):
        outcomes |= _best(outcomes, f"topk-{sign}")
    return outcomes


def measure(
    run: Run, work: Path, train: Sample, test: Sample, watch: Callable[[Featurizer, Progress], None] | None = None
) -> dict[str, Outcome]:
    """Fit and score one run, or read what was kept of it. `watch` sees the featurizer twenty times on the way."""
    kept = work / f"{run.name}.json"
    if not kept.exists():
        featurizer = build(run.species, {"d_in": train.x.shape[1], **run.arguments, "seed": 0})
        steps = run.epochs * TRAIN_ROWS // BATCH
        options: dict[str, Any] = {"steps": steps, "batch_size": BATCH, "lr": run.lr, "aux": run.aux, "seed": 0}
        if watch is not None:
            options |= {"progress": functools.partial(watch, featurizer), "log_every": max(1, steps // 20)}
        history = fit(featurizer, ArrayRows(train.x), out=work / run.name, **options).history
        measured = {}
        for refine in run.refine:
            prefix = run.name if refine is None else f"{run.name}-{refine}"
            numbers = evaluate(featurizer, test.x, refine=refine, samples="rows")
            for outcome in numbers.including(recover(featurizer, test, refine).outcomes).values():
                measured[f"{prefix}/{outcome.name}"] = outcome.to_json()
        seconds = Outcome("seconds", history.seconds, "s", better="lower", note="time spent training")
        measured[f"{run.name}/seconds"] = seconds.to_json()
        write_json(kept, measured)
    return {name: Outcome.from_json(plain) for name, plain in read_json(kept).items()}


def _best(outcomes: Mapping[str, Outcome], prefix: str) -> dict[str, Outcome]:
    """The best of the grid for each way of reading a scalar code; the paper does not say which size it took."""
    best = {}
    for quantity in ("recovery", "recovery_one_to_one", "recovery_atoms"):
        grid = {
            name: o for name, o in outcomes.items() if name.startswith(f"{prefix}-") and name.endswith(f"/{quantity}")
        }
        if grid:
            name = max(grid, key=lambda key: grid[key].value or float("-inf"))
            note = f"best of {len(grid)} sizes: {name.split('/')[0].removeprefix(prefix + '-')}; {grid[name].note}"
            best[f"{prefix}/{quantity}"] = replace(grid[name], note=note)
    return best
