"""Pruning methods against one another: one network, trained, then cut level by level and scored at each.

Controls: ``shuffled`` is similarity pruning's mask with its entries in another order within each layer, as sparse and
trained as long; ``random-neurons`` takes neurons at random. ``lottery`` is magnitude pruning whose survivors go back to
their first values and train as long as the first time.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image, picture_error, picture_loss
from monoseme.composition.pruning import Pruned, prune, shuffled
from monoseme.papers.composition.protocol import bank, protocol, scored, threads
from monoseme.papers.composition.targets import judge_of, target

__all__ = ["BASELINES", "CONTROLS", "METHODS", "cuts_trial"]

BASELINES = ("lottery", "magnitude", "wanda", "taylor", "fpgm", "random")
CONTROLS = ("shuffled", "random-neurons")
METHODS = ("similarity", *CONTROLS, *BASELINES)
DELTAS = ("visible 0.1", "absolute 0.5")


def cuts_trial(point: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """One target, one method, one seed: loss, sparsity and scores at every level, and before."""
    threads()
    fixed, name, method, seed = protocol(), str(point["target"]), str(point["method"]), int(point["seed"])
    picture, judge = target(name, int(fixed["train_size"])), judge_of(target(name, int(fixed["size"])), name)
    fresh = ImageNetwork.dense(int(fixed["width"]), int(fixed["depth"]), bank(int(fixed["width"])), seed=seed)
    network = copy.deepcopy(fresh)
    _fit(network, picture, int(fixed["steps"]))
    whole = copy.deepcopy(network.state_dict())
    numbers = _scored("0", network, judge, picture, seed)
    for number, level in enumerate(fixed["levels"], 1):
        if method == "lottery":
            _cut(network, "magnitude", level, seed, picture, steps=int(fixed["steps"]), rewind=fresh.state_dict())
        else:
            made = _cut(network, "similarity" if method == "shuffled" else method, level, seed, picture)
            if method == "shuffled":
                other = copy.deepcopy(network)
                other.load_state_dict(_masked(whole, shuffled(made.layers, seed)))
                _fit(other, picture, number * int(fixed["retrain"]))
                numbers |= _scored(f"{level:g}", other, judge, picture, seed)
                continue
        numbers |= _scored(f"{level:g}", network, judge, picture, seed)
    return numbers


def _cut(
    network: ImageNetwork,
    method: str,
    level: float,
    seed: int,
    picture: Float[Tensor, "h w 3"],
    *,
    steps: int | None = None,
    rewind: Mapping[str, Tensor] | None = None,
) -> Pruned:
    retrain = functools.partial(_fit, picture=picture, steps=steps or int(protocol()["retrain"]))
    objective = functools.partial(picture_error, target=picture) if method == "taylor" else None
    return prune(
        *(network, len(picture), method), to=level, retrain=retrain, rewind=rewind, objective=objective, seed=seed
    )


def _fit(network: ImageNetwork, picture: Float[Tensor, "h w 3"], steps: int) -> None:
    fixed = protocol()
    fit_image(network, picture, steps=steps, lr=float(fixed["lr"]), optimiser=str(fixed["optimiser"]))


def _masked(state: Mapping[str, Tensor], masks: list[Tensor]) -> dict[str, Tensor]:
    """A state with other masks."""
    return {**state, **{f"mask{i}": mask for i, mask in enumerate(masks)}}


def _scored(
    where: str, network: ImageNetwork, judge: Any, picture: Float[Tensor, "h w 3"], seed: int
) -> dict[str, float]:
    numbers = scored(network, judge, DELTAS, seed)
    total = sum(mask.numel() for mask in network.masks)
    numbers["sparsity"] = 1 - sum(int(mask.sum()) for mask in network.masks) / total
    numbers["loss"] = picture_loss(network, picture)
    return {f"{where} {name}": value for name, value in numbers.items()}
