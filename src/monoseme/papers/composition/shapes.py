"""Width × depth: dense networks of every shape, trained, scored, pruned by similarity, trained again, scored again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image, picture_loss
from monoseme.composition.pruning import prune
from monoseme.papers.composition.protocol import bank, protocol, scored, threads
from monoseme.papers.composition.targets import judge_of, target

__all__ = ["shape_trial"]

DELTAS = ("visible 0.1", "absolute 0.5")


def shape_trial(point: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """One target, one shape, one seed: numbers of the "full" and of the "cut" network."""
    threads()
    fixed, name, width, seed = protocol(), str(point["target"]), int(point["width"]), int(point["seed"])
    picture, judge = target(name, int(fixed["train_size"])), judge_of(target(name, int(fixed["size"])), name)
    network = ImageNetwork.dense(width, int(point["depth"]), bank(width), seed=seed)
    options: dict[str, Any] = {"lr": float(fixed["lr"]), "optimiser": str(fixed["optimiser"])}

    def numbers(when: str) -> dict[str, float]:
        found = scored(network, judge, DELTAS, seed) | {"loss": picture_loss(network, picture)}
        return {f"{when} {key}": value for key, value in found.items()}

    fit_image(network, picture, steps=int(fixed["steps"]), **options)
    full = numbers("full")
    cut = prune(
        network,
        len(picture),
        to=float(fixed["grid_cut"]),
        retrain=lambda module: fit_image(module, picture, steps=int(fixed["retrain"]), **options),
        seed=seed,
    )
    return full | numbers("cut") | {"cut sparsity": cut.sparsity}
