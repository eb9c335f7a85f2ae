"""Absorption under several remedies, at equal error, on a world with strict parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monoseme.core.files import read_json, write_json
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.rows import ArrayRows
from monoseme.core.stats import mean_of
from monoseme.evaluation import evaluate
from monoseme.featurizers import Featurizer, ReLU
from monoseme.featurizers.remedies import Remedied
from monoseme.learning import TrainConfig, train
from monoseme.worlds import Children, Sample, hierarchical

__all__ = ["recipe", "remedies"]

LAMS, SEEDS, AT = (0.1, 0.2, 0.4, 0.8, 1.6), (0, 1, 2), 0.1  # FVU at which they are compared, fixed before any run
ARMS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "fixed bias": {"learn_bias": False},
    "prefixes": {"prefixes": (6, 12)},
    "coherence 1": {"weight": 1.0},
    "coherence 10": {"weight": 10.0},
}


def _fit(sample: Sample, lam: float, seed: int, arm: Mapping[str, Any]) -> Featurizer:
    options = dict(arm)
    featurizer = ReLU(sample.x.shape[1], 18, learn_bias=options.pop("learn_bias", True), seed=seed)
    config = TrainConfig(steps=1500, batch_size=512, lr=3e-3, seed=seed)
    train(Remedied(featurizer, lam=lam, **options), ArrayRows(sample.x), config=config)
    return featurizer.eval()


def _absorbed(featurizer: Featurizer, test: Sample) -> float:
    """Share of rows with a child on where the latent matched to its parent (by correlation of firing) is silent."""
    on = featurizer.encode(test.x).to_dense().squeeze(-1) > 0
    truth, parent = test.active, test.world.activity.parent  # pyright: ignore[reportAttributeAccessIssue]
    with np.errstate(invalid="ignore", divide="ignore"):  # a dead latent has no correlation
        table = np.corrcoef(truth.T.numpy(), on.T.numpy())
    correlation = np.nan_to_num(table[: truth.shape[1], truth.shape[1] :])
    silent = [
        float((~on[truth[:, child], int(correlation[p].argmax())]).float().mean())
        for child, p in enumerate(parent.tolist())
        if p >= 0
    ]
    return float(np.mean(silent))


def remedies(work: Path) -> dict[str, Outcome]:
    """Absorption and L0 of every remedy, interpolated over λ to the same FVU; means over seeds."""
    world = hierarchical(d=32, roots=6, p=0.15, children=Children((2,), given=0.3), seed=0)
    sample, test = world.sample(12_000, seed=1), world.sample(6_000, seed=2)
    found: dict[str, Outcome] = {}
    for name, arm in ARMS.items():
        rows = [[_point(work, sample, test, lam, seed, name, arm) for lam in LAMS] for seed in SEEDS]
        for quantity, column in (("absorption", 1), ("l0", 2)):
            values = [_at([r[0] for r in line], [r[column] for r in line]) for line in rows]
            found[f"{name}/{quantity}"] = _mean(quantity, values)
    return found


def _point(
    work: Path, sample: Sample, test: Sample, lam: float, seed: int, name: str, arm: Mapping[str, Any]
) -> list[float]:
    path = work / f"{name.replace(' ', '-')}-{lam}-{seed}.json"
    if not path.exists():
        torch.manual_seed(seed)
        featurizer = _fit(sample, lam, seed, arm)
        numbers = evaluate(featurizer, test.x, samples="rows")
        write_json(path, [numbers["fvu"].value, _absorbed(featurizer, test), numbers["l0"].value])
    return read_json(path)


def _at(fvu: Sequence[float], values: Sequence[float]) -> float | None:
    """The value where FVU crosses `AT`, linearly between neighbours in λ; ``None`` when it does not."""
    for (a, b), (u, v) in zip(pairwise(fvu), pairwise(values), strict=True):
        if min(a, b) <= AT <= max(a, b) and a != b:
            return u + (v - u) * (AT - a) / (b - a)
    return None


def _mean(name: str, values: Sequence[float | None]) -> Outcome:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return unknown(name, "share", f"FVU {AT} was not crossed by {len(values) - len(known)} of {len(values)} seeds")
    m = mean_of(known)
    return Outcome(name, m.value, "share", m.low, m.high, better="lower", n=m.n, n_unit="seeds", note=f"at FVU {AT}")


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    return remedies(work)
