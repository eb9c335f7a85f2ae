"""What the claims about block sizes are judged by, read from finished sweeps: nothing here trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.papers import finished
from monoseme.papers.bsf.block_sizes import ACTIVE, SIZES, SPARSITIES, WIDTHS
from monoseme.papers.finished import Row

__all__ = ["DEFAULTS", "of_model", "one", "recipe"]

NARROW, OCTAVES = WIDTHS[0], 10
DEFAULTS: Mapping[str, Any] = {
    "weights": "pretrained", "species": "Grassmannian", "width": NARROW, "active": ACTIVE, "draw": 0,
}  # fmt: skip


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    models = {"text" if claim.startswith("text") else "vision" for claim in wanted}
    found: dict[str, Outcome] = {}
    for model in sorted(models):
        name = f"block-sizes-{model}"
        table = finished.rows(work, name, f"python -m benchmarks.block_sizes {model} WORK")
        found |= {f"{model}/{key}": outcome for key, outcome in of_model(table, model).items()}
    return found


def one(table: Sequence[Row], number: str, **where: Any) -> float:
    """A number of the one trial with these settings; the others are those of the main series."""
    wanted = {**DEFAULTS, **where}
    chosen = [row for row in table if all(row[key] == value for key, value in wanted.items())]
    if len(chosen) != 1:
        raise refuse("sweep", f"have one trial with {wanted}", len(chosen), "Was it made by this version?")
    return float(chosen[0].get(number, float("nan")))


def of_model(table: Sequence[Row], model: str) -> dict[str, Outcome]:
    """Everything that is said of one model."""
    found = _sizes(table, model) | _dimensions(table) | _maps(table) | _controls(table)
    seeds = sorted({row["draw"] for row in table})
    if len(seeds) > 1:
        gains = [_gain(table, 3, draw=seed) for seed in seeds]
        mean = mean_of(gains)
        found["gain_3"] = Outcome("gain_3", mean.value, "bits/row", mean.low, mean.high, n=len(gains), n_unit="seeds")
        found["gain_3_low"] = Outcome("gain_3_low", mean.low, "bits/row", n=len(gains), n_unit="seeds")
    return found


def _best(bits: Callable[[int], float]) -> float:
    return float(min(SIZES, key=bits))


def _gain(table: Sequence[Row], b: int, number: str = "total 0.2", **where: Any) -> float:
    first = one(table, number, block_size=1, **where)
    return first - one(table, number, block_size=b, **where)


def _sizes(table: Sequence[Row], model: str) -> dict[str, Outcome]:
    """Where the least bits lie."""
    found = {}
    for width in WIDTHS:
        for joint, number in (("", "total 0.2"), ("_joint", "joint 0.2")):
            best = _best(lambda b, n=number, w=width: one(table, n, block_size=b, width=w))
            found[f"best_size{joint}/{width}"] = Outcome("best_size", best, "dims")

    def sparsest(b: int) -> float:
        return min(one(table, "total 0.2", block_size=b, active=a) for a in SPARSITIES[model] if a % b == 0)

    found["best_size_any"] = Outcome("best_size", _best(sparsest), "dims", note=f"of {SPARSITIES[model]} active")
    if any(row["species"] == "BlockTopK" for row in table):
        best = _best(lambda b: one(table, "total 0.2", block_size=b, species="BlockTopK"))
        found["best_size_vanilla"] = Outcome("best_size", best, "dims")
    for joint, number in (("", "total 0.2"), ("_joint", "joint 0.2")):
        gains = [_gain(table, b, number, width=width) for width in WIDTHS for b in SIZES[1:]]
        gains += [
            _gain(table, b, number, active=a)
            for a in SPARSITIES[model]
            for b in SIZES[1:]
            if a != ACTIVE and a % b == 0
        ]
        found[f"least_gain{joint}"] = Outcome("least_gain", min(gains), "bits/row", n=len(gains), n_unit="fits")
    return found


def _dimensions(table: Sequence[Row]) -> dict[str, Outcome]:
    found = {
        f"stable_rank/{b}": Outcome("stable_rank", one(table, "stable_rank_codes", block_size=b), "dims") for b in SIZES
    }
    growth = one(table, "stable_rank_codes", block_size=16) - one(table, "stable_rank_codes", block_size=8)
    return found | {"stable_rank_growth": Outcome("stable_rank_growth", growth, "dims", note="from b = 8 to 16")}


def _maps(table: Sequence[Row]) -> dict[str, Outcome]:
    """Total variation at b = 1 ÷ at b = 4: at equal k and G, at equal active dimensions, and at equal cover too."""
    smooth = one(table, "tv", block_size=4)
    few = one(table, "tv", block_size=1, width=NARROW // 4, active=ACTIVE // 4)
    pairs = {
        "smoother_equal_k": few / smooth,
        "smoother_equal_active": one(table, "tv", block_size=1) / smooth,
        "smoother_matched": _matched(table, {"block_size": 1}),
        "smoother_equal_k_matched": _matched(table, {"block_size": 1, "width": NARROW // 4, "active": ACTIVE // 4}),
    }
    return {name: Outcome(name, value, "ratio") for name, value in pairs.items()}


def _matched(table: Sequence[Row], rough: Mapping[str, Any]) -> float:
    """As `evaluation.smoothness.matched_ratio`, from the octaves of the cover that both fits have."""
    both = (rough, {"block_size": 4})
    maps = [[_at(table, f"maps at {2**i}", where) for i in range(OCTAVES)] for where in both]
    tv = [[_at(table, f"tv at {2**i}", where) for i in range(OCTAVES)] for where in both]
    weight = np.minimum(maps[0], maps[1])
    return float((weight * tv[0]).sum() / (weight * tv[1]).sum()) if weight.any() else float("nan")


def _at(table: Sequence[Row], number: str, where: Mapping[str, Any]) -> float:
    """A number that a fit without maps in that octave does not have: 0 maps."""
    value = one(table, number, **where) if any(number in row for row in table) else float("nan")
    return value if np.isfinite(value) else 0.0


def _controls(table: Sequence[Row]) -> dict[str, Outcome]:
    """Trained blocks against dealt ones, and the trained model against itself with random weights; joint bits."""
    fitted = one(table, "joint 0.2", block_size=3)
    shuffled = one(table, "shuffled joint 0.2", block_size=3) - fitted
    dealt = one(table, "dealt 3 joint 0.2", block_size=1) - fitted
    found = {
        "shuffled_minus_fitted": Outcome("shuffled_minus_fitted", shuffled, "bits/row"),
        "dealt_minus_fitted": Outcome("dealt_minus_fitted", dealt, "bits/row"),
    }
    for name, weights in (("gain_share", "pretrained"), ("gain_share_random", "random")):
        share = _gain(table, 3, weights=weights) / one(table, "total 0.2", block_size=1, weights=weights)
        found[name] = Outcome(name, share, "share")
    return found
