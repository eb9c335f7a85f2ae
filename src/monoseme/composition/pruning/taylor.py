"""Taylor scores of coupled groups, as LLM-Pruner has them (arXiv 2305.11627): what a neuron is worth to a loss.

A group is a neuron: its incoming weights and those that read it. With gradient g and squared gradient h of the
objective, means over batches, taking a weight away changes it by about -w g + ½ h w². Elements of the score:
``"first"`` Σ|w g| (their default), ``"vectorize"`` |Σ w g|, ``"second"`` Σ h w², ``"mix"`` Σ|w g - ½ h w²|; of incoming
and outgoing weights each, then their sum, mean or largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from monoseme.composition.pruning.layers import Layer, Maps
from monoseme.core.errors import closest, refuse

__all__ = ["Objective", "add_gradients", "taylor"]

Objective = Callable[[Any], Tensor]  # of the module: a loss, or one a batch

Element = Callable[[Tensor, Tensor, Tensor], Float64[Tensor, " n"]]  # weights, g, h, all (neurons, their weights)
ELEMENTS: dict[str, Element] = {
    "first": lambda w, g, h: (w * g).abs().sum(1),
    "vectorize": lambda w, g, h: (w * g).sum(1).abs(),
    "second": lambda w, g, h: (h * w.square()).sum(1),
    "mix": lambda w, g, h: (w * g - 0.5 * h * w.square()).abs().sum(1),
}
REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda both: both.sum(0),
    "mean": lambda both: both.mean(0),
    "max": lambda both: both.amax(0),
}


def taylor(
    layers: list[Layer], maps: list[Maps], _random: np.random.Generator, options: Mapping[str, Any]
) -> Iterator[tuple[int, int, float]]:
    """Neurons, least important first. Options: `element`, `reduction`."""
    element = _one_of("element", options.get("element", "first"), ELEMENTS)
    reduce = _one_of("reduction", options.get("reduction", "sum"), REDUCTIONS)
    found: list[tuple[float, int, int]] = []
    for index, (layer, one) in enumerate(zip(layers, maps, strict=True)):
        if layer.next is None:
            continue
        if one.gradient is None:
            raise refuse("objective", "be given for taylor", "None", "Pass a function of the module: its loss.")
        after = maps[next(i for i, other in enumerate(layers) if other is layer.next[0])].gradient
        assert after is not None
        incoming = element(*(x.flatten(1) for x in (layer.weight.detach().double(), *one.gradient)))
        weights = layer.next[0].weight.detach().double()
        outgoing = element(*(_columns(x, len(incoming)) for x in (weights, *after)))
        values = reduce(torch.stack([incoming, outgoing]))
        found += [(float(values[n]), index, n) for n in torch.nonzero(layer.kept).flatten().tolist()]
    for value, index, neuron in sorted(found):
        yield index, neuron, value


def add_gradients(module: nn.Module, layers: list[Layer], maps: list[Maps], objective: Objective) -> None:
    """Mean gradient, and mean squared gradient, of the objective's batches for every matrix, into the maps."""
    losses = objective(module)
    if not isinstance(losses, Tensor) or not losses.requires_grad or losses.ndim > 1:
        got = f"{tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise refuse("objective", "return a loss with a gradient, or one a batch", got, "Leave out no_grad.")
    weights, each = [layer.weight for layer in layers], losses.reshape(-1)
    sums = [(torch.zeros_like(w, dtype=torch.float64), torch.zeros_like(w, dtype=torch.float64)) for w in weights]
    for number, loss in enumerate(each):
        found = torch.autograd.grad(loss, weights, retain_graph=number + 1 < len(each), materialize_grads=True)
        for (g, h), one in zip(sums, found, strict=True):
            g += one.double() / len(each)
            h += one.double().square() / len(each)
    for one, gradient in zip(maps, sums, strict=True):
        one.gradient = gradient


def _columns(x: Tensor, neurons: int) -> Tensor:
    """Weights that read each neuron, a row a neuron."""
    return x.reshape(len(x), neurons, -1).movedim(1, 0).flatten(1)


def _one_of(name: str, given: object, known: Mapping[str, Any]) -> Any:
    if given not in known:
        raise refuse(name, f"be one of {', '.join(known)}", repr(given), closest(str(given), known))
    return known[str(given)]
