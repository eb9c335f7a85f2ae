"""`prune`: rounds of masking and training again, for every method alike; and the control that shuffles the mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monoseme.composition.pruning.keeping import Kept, Round, fingerprint
from monoseme.composition.pruning.layers import Layer, Maps, hold, layers_of, maps_of, remove, sparsity
from monoseme.composition.pruning.scores import WEIGHTS, chosen
from monoseme.composition.pruning.taylor import Objective, add_gradients
from monoseme.composition.pruning.victims import NEURONS
from monoseme.core.errors import closest, refuse
from monoseme.core.files import only_writer
from monoseme.core.seeds import rng

__all__ = ["METHODS", "Pruned", "Round", "prune", "shuffled"]

METHODS = (*WEIGHTS, *NEURONS)
OPTIONS = {
    "similarity": ("threshold", "threshold_last", "pairs", "centred", "signed"),
    "taylor": ("element", "reduction"),
}
Retrain = Callable[[Any], Any]  # of the module


@dataclass(frozen=True, eq=False)
class Pruned:
    """The module, pruned in place; its layers with their masks; and what every round did."""

    module: nn.Module
    layers: list[Layer]
    rounds: tuple[Round, ...]

    @property
    def sparsity(self) -> float:
        """Share of all weights that are masked."""
        return sparsity(self.layers)

    def hold(self) -> None:
        """Put masked weights back to 0: call it after every step of a training of your own."""
        hold(self.layers)


def prune(
    module: nn.Module,
    data: Any,
    method: str = "similarity",
    *,
    to: float = 0.5,
    rounds: int = 1,
    retrain: Retrain | None = None,
    rewind: Mapping[str, Tensor] | None = None,
    loss: Callable[[nn.Module], float] | None = None,
    bound: float | None = None,
    objective: Objective | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    **options: float | bool | str,
) -> Pruned:
    """Prune a network in place.

    Parameters
    ----------
    module
        Any module of linear and convolution layers, or an `ImageNetwork`. Neurons are pruned only in chains: a plain
        nn.Sequential, or an image network.
    data
        Inputs as a tensor or batches, for methods that look at maps or inputs; of an image network, the picture's side.
    method
        By weights: ``"magnitude"`` (of the whole network), ``"magnitude-by-layer"``, ``"wanda"``, ``"random"``. By
        neurons: ``"similarity"``, ``"taylor"``, ``"fpgm"``, ``"random-neurons"``.
    to
        Share of weights masked at the end, by as many rounds, each of which masks the same share of what is left.
    retrain
        Called after every round; masked weights are put back to 0 after it. `fit_image` keeps them there itself.
    rewind
        State to which survivors go back before each training: the network's before its first (the lottery ticket), or
        early in it.
    loss, bound
        Lower is better; pruning ends after the round that leaves it above `bound`.
    objective
        For taylor: function of the module that returns its loss with a gradient, or one loss a batch.
    out
        Folder in which every round is kept: the same call with the same starting module goes on after the last one.
        Give `retrain` no folder of its own.
    options
        Of the method. similarity: `threshold`, below which no pair is alike, `threshold_last`, towards which it moves
        evenly from the first round to the last, `pairs`, most victims a round, `centred`, `signed`; taylor: `element`,
        `reduction`.

    Raises
    ------
    UserError
        For a module that cannot be pruned so, a share outside 0…1, an unknown method or option; a folder that holds
        another run, or in which one is at work.
    """
    if method not in METHODS:
        raise refuse("method", f"be one of {', '.join(METHODS)}", repr(method), closest(method, METHODS))
    if not 0 < to < 1:
        raise refuse("to", "lie between 0 and 1, a share of the weights", to, "0.5 is half.")
    if rounds < 1:
        raise refuse("rounds", "be at least 1", rounds, "1 prunes all at once.")
    if bound is not None and loss is None:
        raise refuse("loss", "be given with a bound", "None", "Pass a function of the module.")
    for name in options:
        if name not in OPTIONS.get(method, ()):
            known = OPTIONS.get(method, ())
            raise refuse(
                name, f"be an option of {method}", "an unknown one", closest(name, known) if known else "None."
            )
    plan = _Plan(method, to, rounds, retrain, rewind, loss, bound, objective, seed, options)
    if out is None:
        return _pruned(module, data, plan, None)
    Path(out).mkdir(parents=True, exist_ok=True)
    with only_writer(Path(out)):
        run = {"method": method, "to": to, "rounds": rounds, "seed": seed, "bound": bound, "options": dict(options)}
        run |= {"rewound": rewind is not None, "start": fingerprint(module)}
        return _pruned(module, data, plan, Kept(Path(out), run))


@dataclass(frozen=True)
class _Plan:
    method: str
    to: float
    rounds: int
    retrain: Retrain | None
    rewind: Mapping[str, Tensor] | None
    loss: Callable[[nn.Module], float] | None
    bound: float | None
    objective: Objective | None
    seed: int
    options: Mapping[str, Any]

    def ended(self, last: Round, goal: float) -> bool:
        stuck = self.method in NEURONS and not last.victims and last.sparsity < goal
        return stuck or (self.bound is not None and last.after is not None and last.after > self.bound)

    def at(self, number: int) -> dict[str, Any]:
        """Options of a round: a threshold that moves is where it is then."""
        made = {name: value for name, value in self.options.items() if name != "threshold_last"}
        if "threshold_last" in self.options:
            first, last = float(self.options.get("threshold", 1.0)), float(self.options["threshold_last"])
            made["threshold"] = first + (last - first) * ((number - 1) / max(self.rounds - 1, 1))
        return made


def _pruned(module: nn.Module, data: Any, plan: _Plan, kept: Kept | None) -> Pruned:
    layers = layers_of(module)
    start = sparsity(layers)
    made = [] if kept is None else kept.load(module, layers)
    for number in range(1, plan.rounds + 1):
        part = ((1 - plan.to) / (1 - start)) ** (number / plan.rounds)
        goal = 1 - (1 - start) * part if plan.to > start else plan.to
        if number > len(made):
            made.append(_round(module, layers, data, plan, number, goal))
            if kept is not None:
                kept.save(module, layers, made)
        if plan.ended(made[number - 1], goal):
            break
    return Pruned(module, layers, tuple(made))


def _round(module: nn.Module, layers: list[Layer], data: Any, plan: _Plan, number: int, goal: float) -> Round:
    maps = maps_of(module, layers, data)
    if plan.objective is not None:
        add_gradients(module, layers, maps, plan.objective)
    victims = _mask(layers, maps, plan.method, goal, rng(plan.seed, "prune", number), plan.at(number))
    if plan.rewind is not None:
        _rewound(layers, module, plan.rewind)
    hold(layers)
    before = None if plan.loss is None else plan.loss(module)
    if plan.retrain is not None:
        plan.retrain(module)
        hold(layers)
    after = before if plan.retrain is None or plan.loss is None else plan.loss(module)
    return Round(sparsity(layers), victims, before, after)


def _mask(
    layers: list[Layer],
    maps: list[Maps],
    method: str,
    goal: float,
    random: np.random.Generator,
    options: Mapping[str, Any],
) -> tuple[tuple[str, int, float], ...]:
    """Mask until the goal; returns the neurons that went."""
    if method in WEIGHTS:
        for layer, mask in zip(layers, chosen(WEIGHTS[method], layers, maps, goal, random), strict=True):
            layer.mask.copy_(mask)
        return ()
    if all(layer.next is None for layer in layers):
        remove(layers[0], 0)  # says why
    gone = []
    for index, neuron, value in NEURONS[method](layers, maps, random, options):
        if sparsity(layers) >= goal:
            break
        if int(layers[index].kept.sum()) > 1:  # a layer without neurons is no network
            remove(layers[index], neuron)
            gone.append((layers[index].name, neuron, value))
    return tuple(gone)


@torch.no_grad()
def _rewound(layers: list[Layer], module: nn.Module, first: Mapping[str, Tensor]) -> None:
    """Weights and biases as they were; masks as they are."""
    masks = [layer.mask.clone() for layer in layers]
    module.load_state_dict(dict(first))
    for layer, mask in zip(layers, masks, strict=True):
        layer.mask.copy_(mask)


def shuffled(layers: list[Layer], seed: int = 0) -> list[Tensor]:
    """The masks with their entries shuffled within each layer: as sparse, but other connections.

    Set them on a fresh copy of the network and train it alike: if it does as well, it was not *which* connections.
    """
    found = []
    for layer in layers:
        order = rng(seed, "shuffled", layer.name).permutation(layer.mask.numel())
        found.append(layer.mask.flatten()[torch.from_numpy(order)].reshape(layer.mask.shape))
    return found
