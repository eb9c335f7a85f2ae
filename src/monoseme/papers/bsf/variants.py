"""Every block featurizer on the synthetic world of App. H, with its score along the way.

The curves are scored on fewer rows than the final numbers. They are kept in the outcome's provenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from monoseme.core.files import read_json, write_json
from monoseme.core.outcome import Outcome
from monoseme.evaluation import evaluate, recover
from monoseme.featurizers import Featurizer
from monoseme.learning import Progress
from monoseme.papers.bsf.manifolds import BATCH, TEST_ROWS, TRAIN_ROWS, Run, measure
from monoseme.worlds import Sample, manifolds

__all__ = ["VARIANTS", "recipe"]

CURVE_ROWS = 20_000
BLOCKS = {"n_blocks": 256, "block_size": 4}

# settings found by trying a few on this world; all were tried on the same rows, none on the rows of the final score
VARIANTS = (
    Run("vanilla", "BlockTopK", {**BLOCKS, "k": 4}, 60, 3e-3),
    Run("grassmannian", "Grassmannian", {"n_blocks": 384, "block_size": 3, "k": 4}, 80, 1e-2),
    Run("group-lasso", "GroupLasso", {**BLOCKS, "target_l0": 6.0}, 60, 1e-2, aux=None),
    Run("group-lasso-4", "GroupLasso", {**BLOCKS, "target_l0": 4.0}, 60, 1e-2, aux=None),
    Run("group-lasso-threshold", "GroupLasso", {**BLOCKS, "target_l0": 4.0, "gate": "threshold"}, 60, 3e-3),
    Run("batch-topk", "BatchTopK", {**BLOCKS, "k": 4}, 60, 3e-3),
    Run("tournament", "Tournament", {"n_blocks": 384, "block_size": 3, "k": 4, "overlap": 0.1}, 80, 1e-2),
)


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    world = manifolds(seed=0)
    train, test = world.sample(TRAIN_ROWS, seed=1), world.sample(TEST_ROWS, seed=2)
    outcomes: dict[str, Outcome] = {}
    for run in VARIANTS:
        if run.name in wanted:
            outcomes |= _with_curve(run, work, train, test)
    return outcomes


def _with_curve(run: Run, work: Path, train: Sample, test: Sample) -> dict[str, Outcome]:
    path, look = work / f"{run.name}-curve.json", test.world.sample(CURVE_ROWS, seed=3)

    def watch(featurizer: Featurizer, progress: Progress) -> None:
        # read again each time: a resumed run goes on with the points it has
        points = read_json(path) if path.exists() else {}
        epoch = progress.step * BATCH / TRAIN_ROWS
        score, l0 = recover(featurizer, look)["recovery"].value, evaluate(featurizer, look.x)["l0"].value
        write_json(path, {**points, f"{epoch:09.4f}": [score, l0]})

    outcomes = measure(run, work, train, test, watch)
    points = sorted((float(epoch), *values) for epoch, values in read_json(path).items())
    epochs, scores, l0 = (list(column) for column in zip(*points, strict=True))
    for name, values in (("recovery", scores), ("l0", l0)):
        curve = {"x": epochs, "y": values, "x_name": "epoch", "rows": CURVE_ROWS}
        outcome = outcomes[f"{run.name}/{name}"]
        outcomes[f"{run.name}/{name}"] = replace(outcome, provenance={**outcome.provenance, "curve": curve})
    return outcomes
