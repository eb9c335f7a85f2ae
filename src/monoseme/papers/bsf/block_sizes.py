"""Description length, dimension and smoothness over block sizes at equal active dimensions, with their controls.

A trial is one fit on one harvested store. It chooses its learning rate itself, by a whole fit at each of a few rates,
scored on the validation rows; so every size, variant and control is tuned alike. All numbers are on test rows. Beside
those of the fit stand the same numbers of its own directions dealt at random to blocks of the same size.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from monoseme.core.protocols import Featurizes
from monoseme.core.rows import RowSource
from monoseme.core.stats import merged
from monoseme.evaluation import dimension, evaluate, shuffled_blocks, smoothness
from monoseme.evaluation.code_sums import code_sums
from monoseme.evaluation.description_length import HORIZON, lengths
from monoseme.evaluation.dimension import RANKS
from monoseme.featurizers import Featurizer, build
from monoseme.papers.bsf.tuned import BATCH, RATES, STEPS, tuned
from monoseme.store import ActivationStore

__all__ = ["ACTIVE", "FLOORS", "PROTOCOL", "SIZES", "SPARSITIES", "WIDTHS", "measure", "points"]

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
ACTIVE, WIDTHS = 48, (1536, 3072)  # active dimensions k·b, and directions G·b: divisible by every size
SPARSITIES = {"vision": (24, 48, 96), "text": (24, 48)}  # active dimensions tried at the first width
FLOORS = (0.01, 0.05, 0.1, 0.2)
SEEDS = {"vision": (0, 1, 2), "text": (0,)}  # of b = 1 and 3 at the first width

PROTOCOL = {"steps": STEPS, "batch": BATCH, "rates": list(RATES), "horizon": HORIZON}

Point = dict[str, Any]


def points(model: str) -> list[Point]:
    """Every fit of one model, ``"vision"`` or ``"text"``; the seed is a setting, for only two sizes have several."""
    narrow = WIDTHS[0]
    made = [_point(model, "Grassmannian", b, width) for width in WIDTHS for b in SIZES]
    made += [_point(model, "Grassmannian", b, narrow, weights="random") for b in SIZES]
    made += [_point(model, "Grassmannian", b, narrow, draw=draw) for b in (1, 3) for draw in SEEDS[model][1:]]
    # the paper compares maps at equal k and equal G: the partner of b = 4 at the first width
    made.append(_point(model, "Grassmannian", 1, narrow // 4, active=ACTIVE // 4))
    if model == "vision":
        made += [_point(model, "BlockTopK", b, narrow) for b in SIZES]
    for active in SPARSITIES[model]:
        if active != ACTIVE:
            made += [_point(model, "Grassmannian", b, narrow, active=active) for b in SIZES if active % b == 0]
    return made


def _point(
    model: str, species: str, b: int, width: int, *, weights: str = "pretrained", draw: int = 0, active: int = ACTIVE
) -> Point:
    sizes = {"n_blocks": width // b, "block_size": b, "k": active // b}
    about = {"width": width, "active": active, "draw": draw}
    return {"model": model, "weights": weights, "species": species, **sizes, **about}


def measure(point: Mapping[str, Any], folder: Path, *, stores: str) -> dict[str, Any]:
    """Fit one point of the sweep and measure it (see `learning.sweep`). `stores` is the folder of the harvests."""
    store = ActivationStore.open(Path(stores) / f"{point['model']}-{point['weights']}")
    train, test = store.rows("train"), store.rows("test")
    grid = _grid(store)
    make = functools.partial(_make, point, train.d_in)
    seed, held = point["draw"], store.rows("validation")
    featurizer, rate, margin = tuned(make, train, held, folder / "fit", seed=seed)
    found: dict[str, Any] = {"lr": rate, "lr_margin": margin}
    numbers = evaluate(featurizer, test)
    found |= {name: numbers[name] for name in ("fvu", "l0", "dead_share")}
    found |= _of(featurizer, test, grid, FLOORS)
    if point["block_size"] > 1:
        dealt = _of(shuffled_blocks(featurizer, seed=seed), test, grid, FLOORS[-1:])
        return found | {f"shuffled {name}": value for name, value in dealt.items()}
    for b in SIZES[1:]:  # scalar latents dealt to blocks: what a block saves without having been learned
        if featurizer.n_blocks % b == 0 and point["width"] in WIDTHS:
            dealt = _of(shuffled_blocks(featurizer, b, seed=seed), test, grid, FLOORS[-1:])
            found |= {f"dealt {b} {name}": value for name, value in dealt.items()}
    return found


def _make(point: Mapping[str, Any], d_in: int) -> Featurizer:
    sizes = {name: point[name] for name in ("n_blocks", "block_size", "k")}
    # a scalar BlockTopK is signed, as the paper's SAE is
    return build(point["species"], {"d_in": d_in, **sizes, "seed": point["draw"]})


def _of(featurizer: Featurizes, test: RowSource, grid: tuple[int, int], floors: tuple[float, ...]) -> dict[str, Any]:
    """Everything that depends on which directions belong together."""
    folds, atoms = code_sums(featurizer, test), featurizer.atoms
    found: dict[str, Any] = {"blocks_active": reduce(merged, folds).active / sum(fold.rows for fold in folds)}
    for floor in floors:
        bits = lengths(folds, atoms, floor, HORIZON)
        kept = bits.paper.items() if floor == FLOORS[-1] else [("total", bits.paper["total"])]
        found |= {f"{name} {floor:g}": outcome for name, outcome in kept}
        found[f"joint {floor:g}"] = bits.joint["total"]
    ranks = dimension(featurizer, test).outcomes
    found |= {name: ranks[name] for name in (*RANKS, "too_rare")}
    maps = smoothness(featurizer, test, grid)
    found |= {"tv": maps.total_variation, "dirichlet": maps.dirichlet, "cover": maps.cover}
    for octave, row in maps.by_cover.items():
        found |= {f"{name} at {octave}": value for name, value in zip(("maps", "tv", "dirichlet"), row, strict=True)}
    return found


def _grid(store: ActivationStore) -> tuple[int, int]:
    """Of all samples: pictures have one, of texts the longest."""
    grids = [store.sample(id).grid for id in store.samples("test")]
    return max(grid[0] for grid in grids), max(grid[1] for grid in grids)
