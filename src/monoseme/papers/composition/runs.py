"""The sweeps: what is run at which points. Each is resumable, and is read by `measures` when it is finished."""

from __future__ import annotations

import functools
from typing import Any

from monoseme.composition.scenes import SCENES
from monoseme.core.errors import refuse
from monoseme.learning.points import grid
from monoseme.learning.trial import Measure
from monoseme.papers.composition.cuts import METHODS, cuts_trial
from monoseme.papers.composition.optimisers import optimiser_trial
from monoseme.papers.composition.protocol import protocol
from monoseme.papers.composition.shapes import shape_trial
from monoseme.papers.composition.targets import GENOMES, PHOTOGRAPHS
from monoseme.papers.composition.trap import PUBLIC, trap_trial

__all__ = ["RUNS", "points", "seeds", "trial"]

RUNS = ("trap", "trap-public", "cuts", "shapes", "optimisers")
KINDS = ("known", "dense")
PRUNED = ("face", "butterfly", "house", *PHOTOGRAPHS)


def points(run: str) -> list[dict[str, Any]]:
    """Points of a run."""
    fixed, scenes = protocol(), list(SCENES)
    if run == "trap":
        return grid(target=scenes, kind=KINDS)
    if run == "trap-public":
        return grid(target=[PUBLIC + name for name in GENOMES], kind=KINDS)
    if run == "cuts":
        return grid(target=PRUNED, method=METHODS)
    if run == "shapes":
        return grid(target=scenes, width=fixed["widths"], depth=fixed["depths"])
    everything = [*scenes, *PHOTOGRAPHS]
    return [
        *grid(target=everything, optimiser=["adam"], lr=fixed["rates_adam"]),
        *grid(target=everything, optimiser=["muon"], lr=fixed["rates_muon"]),
    ]


def trial(run: str, genomes: str | None = None) -> Measure:
    """The function of a run; that of trap-public needs the folder with the genomes."""
    if run == "trap-public":
        if genomes is None:
            raise refuse("genomes", "be the folder of skull.zip and fer_params.npz", "nothing", "Pass --genomes.")
        return functools.partial(trap_trial, genomes=genomes)
    return {"trap": trap_trial, "cuts": cuts_trial, "shapes": shape_trial, "optimisers": optimiser_trial}[run]


def seeds(run: str) -> tuple[int, ...]:
    """Of weights and of what is sampled; there is one public network of a kind."""
    return (0,) if run == "trap-public" else (0, 1, 2)
