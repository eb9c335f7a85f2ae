"""`prune`: rounds of masking and training again, for every method alike; and the control that shuffles the mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monoseme.composition.pruning.layers import Layer, Maps, hold, layers_of, maps_of, remove, sparsity
from monoseme.composition.pruning.scores import WEIGHTS, chosen
from monoseme.composition.pruning.taylor import Objective, add_gradients
from monoseme.composition.pruning.victims import NEURONS
from monoseme.core.errors import closest, refuse
from monoseme.core.seeds import rng

__all__ = ["METHODS", "Pruned", "Round", "prune", "shuffled"]

METHODS = (*WEIGHTS, *NEURONS)
Retrain = Callable[[Any], Any]  # of the module


@dataclass(frozen=True)
class Round:
    """One round: the sparsity after it; victims (layer, neuron, and the number that chose them); losses, where asked.

    `before` is the loss right after masking, `after` that after training again.
    """

    sparsity: float
    victims: tuple[tuple[str, int, float], ...]
    before: float | None
    after: float | None


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
    options
        Of the method: `threshold`, `centred`, `signed` for similarity; `element`, `reduction` for taylor.

    Raises
    ------
    UserError
        For a module that cannot be pruned so, a share outside 0…1, an unknown method.
    """
    if method not in METHODS:
        raise refuse("method", f"be one of {', '.join(METHODS)}", repr(method), closest(method, METHODS))
    if not 0 < to < 1:
        raise refuse("to", "lie between 0 and 1, a share of the weights", to, "0.5 is half.")
    if rounds < 1:
        raise refuse("rounds", "be at least 1", rounds, "1 prunes all at once.")
    if bound is not None and loss is None:
        raise refuse("loss", "be given with a bound", "None", "Pass a function of the module.")
    layers = layers_of(module)
    start, made = sparsity(layers), []
    for number in range(1, rounds + 1):
        goal = 1 - (1 - start) * ((1 - to) / (1 - start)) ** (number / rounds) if to > start else to
        maps = maps_of(module, layers, data)
        if objective is not None:
            add_gradients(module, layers, maps, objective)
        victims = _mask(layers, maps, method, goal, rng(seed, "prune", number), options)
        if rewind is not None:
            _rewound(layers, module, rewind)
        hold(layers)
        before = None if loss is None else loss(module)
        if retrain is not None:
            retrain(module)
            hold(layers)
        after = before if retrain is None or loss is None else loss(module)
        made.append(Round(sparsity(layers), victims, before, after))
        stuck = method in NEURONS and not victims and sparsity(layers) < goal
        if stuck or (bound is not None and after is not None and after > bound):
            break
    return Pruned(module, layers, tuple(made))


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
