"""The four sweeps: what is run at which points. Each is resumable, and is read by `measures` when it is finished."""

from __future__ import annotations

import functools
from typing import Any

from monoseme.composition.scenes import SCENES
from monoseme.learning.points import grid
from monoseme.learning.trial import Measure
from monoseme.papers.composition.cuts import METHODS, cuts_trial
from monoseme.papers.composition.optimisers import optimiser_trial
from monoseme.papers.composition.protocol import protocol
from monoseme.papers.composition.shapes import shape_trial
from monoseme.papers.composition.targets import GENOMES, PHOTOGRAPHS
from monoseme.papers.composition.trap import PUBLIC, trap_trial

__all__ = ["RUNS", "points", "seeds", "trial"]

RUNS = ("trap", "cuts", "shapes", "optimisers")
KINDS = ("known", "dense")
PRUNED = ("face", "butterfly", "house", *PHOTOGRAPHS)


def points(run: str, genomes: str | None = None) -> list[dict[str, Any]]:
    """Points of a run; of the trap, with the public genomes where their folder is given."""
    fixed, scenes = protocol(), list(SCENES)
    if run == "trap":
        public = [PUBLIC + name for name in GENOMES] if genomes else []
        return grid(target=[*scenes, *public], kind=KINDS)
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
    """The function of a run."""
    if run == "trap":
        return functools.partial(trap_trial, genomes=genomes)
    return {"cuts": cuts_trial, "shapes": shape_trial, "optimisers": optimiser_trial}[run]


def seeds() -> tuple[int, ...]:
    """Of weights and of what is sampled."""
    return (0, 1, 2)
