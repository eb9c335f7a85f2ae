"""Adam against Muon at equal schedules: each at several rates, with how flat the minimum is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monoseme.composition.flatness import flatness
from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image, picture_error
from monoseme.core.outcome import Outcome
from monoseme.papers.composition.protocol import bank, protocol, scored, threads
from monoseme.papers.composition.targets import judge_of, target

__all__ = ["optimiser_trial"]

DELTAS = ("visible 0.1", "absolute 0.5")


def optimiser_trial(point: Mapping[str, Any], folder: Path) -> dict[str, float | Outcome]:
    """One target, one optimiser, one rate, one seed."""
    threads()
    fixed, name, seed = protocol(), str(point["target"]), int(point["seed"])
    picture, judge = target(name, int(fixed["train_size"])), judge_of(target(name, int(fixed["size"])), name)
    network = ImageNetwork.dense(int(fixed["width"]), int(fixed["depth"]), bank(int(fixed["width"])), seed=seed)
    options: dict[str, Any] = {
        "steps": int(fixed["steps"]),
        "lr": float(point["lr"]),
        "optimiser": str(point["optimiser"]),
    }
    fit_image(network, picture, **options)
    found = flatness(network, functools.partial(picture_error, target=picture), noise=float(fixed["noise"]), seed=seed)
    numbers = {"loss": found.loss, "top": found.top, "trace": found.trace, "rise": found.rise}
    return scored(network, judge, DELTAS, seed) | numbers
