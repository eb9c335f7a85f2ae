"""What pruning sees of a network: its matrices with their masks, which neuron is read where, and maps on data.

Any module of linear and convolution layers will do, and an `ImageNetwork`. Weights can be pruned in all of them;
neurons only where layers follow one another, so that it is known which columns read a neuron.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from monoseme.composition.canvas import coordinates
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse

__all__ = ["Layer", "Maps", "hold", "layers_of", "maps_of", "remove", "sparsity"]


@dataclass(eq=False)
class Layer:
    """One matrix.

    Attributes
    ----------
    name
        Of the module, or the number of the matrix.
    weight, bias
        Trained; rows of the weight are neurons.
    mask
        True where a weight is kept; of the weight's shape.
    next
        The layer that alone reads the neurons, and how many neighbouring columns read each; None: not known.
    """

    name: str
    weight: nn.Parameter
    mask: Bool[Tensor, ...]
    bias: nn.Parameter | None = None
    next: tuple[Layer, int] | None = field(default=None, repr=False)

    @property
    def kept(self) -> Bool[Tensor, " n"]:
        """Neurons that still read something."""
        return self.mask.flatten(1).any(1)


@dataclass(eq=False)
class Maps:
    """Sums over data of one layer: of its inputs' squares, and products of its neurons' maps. They add up in any order.

    Attributes
    ----------
    inputs
        Σ x² of every input (channel).
    gram, total
        Σ aᵢ aⱼ and Σ aᵢ of the neurons' values as the next layer sees them; empty for a last layer.
    n, m
        Positions summed over: of inputs, of neurons.
    gradient
        Mean gradient and mean squared gradient of an objective, of the weight's shape, for methods that need them.
    """

    inputs: Float64[Tensor, " in_"]
    gram: Float64[Tensor, "n n"]
    total: Float64[Tensor, " n"]
    n: int = 0
    m: int = 0
    gradient: tuple[Tensor, Tensor] | None = None

    def cosines(self, centred: bool = False) -> Float64[Tensor, "n n"]:
        """Cosines of the maps, of the maps minus their means if `centred`; 0 for constant maps and on the diagonal."""
        gram = self.gram - torch.outer(self.total, self.total) / max(self.m, 1) if centred else self.gram
        moving = self.gram.diagonal() - self.total.square() / max(self.m, 1)
        size = gram.diagonal().clamp(min=0).sqrt()
        alive = moving > 1e-12 * self.gram.diagonal().max().clamp(min=1e-300)
        safe = torch.where(alive, size, torch.inf)
        found = gram / safe[:, None] / safe[None]
        return found.fill_diagonal_(0.0)


def layers_of(module: nn.Module) -> list[Layer]:
    """All matrices of a network, in order; masks of an image network are its own, others begin full."""
    if isinstance(module, ImageNetwork):
        found = [Layer(str(i), w, m) for i, (w, m) in enumerate(zip(module.weights, module.masks, strict=True))]
        for layer, after in pairwise(found):
            layer.next = (after, 1)
        return found
    found = []
    for name, child in module.named_modules():
        if isinstance(child, (nn.Linear, nn.Conv2d)):
            weight, bias = child.get_parameter("weight"), child.bias
            mask = torch.ones_like(weight, dtype=torch.bool)
            found.append(Layer(name, weight, mask, bias if isinstance(bias, nn.Parameter) else None))
    if not found:
        raise refuse("module", "have linear or convolution layers", type(module).__name__, "Nothing else is pruned.")
    if isinstance(module, nn.Sequential) and all(not list(child.children()) for child in module):
        for layer, after in pairwise(found):
            columns, neurons = after.weight.shape[1], layer.weight.shape[0]
            if columns % neurons == 0:
                layer.next = (after, columns // neurons)
    return found


def hold(layers: Iterable[Layer]) -> None:
    """Put what is masked back to 0: after every step of a training that knows nothing of masks."""
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(layer.mask)
            if layer.bias is not None:
                layer.bias.mul_(layer.kept)


def remove(layer: Layer, neuron: int) -> None:
    """Mask a neuron's incoming and outgoing weights, and with them its bias."""
    if layer.next is None:
        fix = "Neurons can be pruned in a plain nn.Sequential and in an ImageNetwork; elsewhere prune weights."
        raise refuse("module", "be a chain, so that it is known what reads a neuron", layer.name, fix)
    after, columns = layer.next
    layer.mask[neuron] = False
    after.mask[:, neuron * columns : (neuron + 1) * columns] = False


def sparsity(layers: Iterable[Layer]) -> float:
    """Share of all weights that are masked."""
    masks = [layer.mask for layer in layers]
    return 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)


@torch.no_grad()
def maps_of(module: nn.Module, layers: list[Layer], data: Any) -> list[Maps]:
    """Sums over data; of an image network, `data` is the side of the picture. Data come as a tensor, or as batches."""
    if isinstance(module, ImageNetwork):
        if not isinstance(data, int) or isinstance(data, bool):
            raise refuse("data", "be the side of the picture, for an image network", type(data).__name__, "Say 64.")
        like = module.weights[0]
        coords = coordinates(data, like.dtype).to(like.device)
        values = [coords, *module.maps(coords)]
        return [_sums(x, a if i < len(layers) - 1 else None) for i, (x, a) in enumerate(pairwise(values))]
    batches = [data] if isinstance(data, Tensor) else data
    if isinstance(batches, (int, str)) or not isinstance(batches, Iterable):
        raise refuse("data", "be a tensor, or batches of tensors", type(data).__name__, "Samples on the first axis.")
    names = {layer.name: i for i, layer in enumerate(layers)}
    found: list[Maps | None] = [None] * len(layers)
    mode = module.training
    module.eval()
    try:
        for batch in batches:
            seen = _inputs(module, names, batch)
            for i, layer in enumerate(layers):
                maps = None if layer.next is None else _neurons(seen[i + 1], layer.weight.shape[0])
                one = _sums(_rows(seen[i]), maps)
                found[i] = one if found[i] is None else _added(found[i], one)  # pyright: ignore[reportArgumentType]
    finally:
        module.train(mode)
    if any(one is None for one in found):
        raise refuse("data", "hold at least one batch", "none", "Is the iterator spent?")
    return found  # pyright: ignore[reportReturnType]


def _inputs(module: nn.Module, names: dict[str, int], batch: Tensor) -> list[Tensor]:
    """Inputs of every layer in one pass."""
    seen: list[Tensor] = [torch.empty(0)] * len(names)
    with ExitStack() as stack:
        for name, i in names.items():

            def keep(_m: nn.Module, args: tuple[Tensor, ...], i: int = i) -> None:
                seen[i] = args[0].detach()

            stack.callback(module.get_submodule(name).register_forward_pre_hook(keep).remove)
        module(batch)
    for name, i in names.items():
        if seen[i].numel() == 0:
            raise refuse("module", "use all of its layers", f"{name!r}, which never ran", "Leave it out of the module.")
    return seen


def _rows(x: Tensor) -> Tensor:
    """Positions by channels."""
    return x.movedim(1, -1).flatten(0, -2) if x.ndim == 4 else x.reshape(-1, x.shape[-1])


def _neurons(x: Tensor, neurons: int) -> Tensor:
    """The same of the next layer's input; a flattened picture has its channels first."""
    rows = _rows(x)
    if rows.shape[1] == neurons:
        return rows
    return rows.reshape(len(rows), neurons, -1).movedim(1, -1).flatten(0, 1)


def _sums(x: Tensor, a: Tensor | None) -> Maps:
    x = x.double()
    if not bool(torch.isfinite(x).all()):
        raise refuse("data", "give finite values in every layer", "NaN or infinity", "Look at data and weights.")
    if a is None:
        return Maps(x.square().sum(0), x.new_zeros(0, 0), x.new_zeros(0), len(x), 0)
    a = a.double()
    return Maps(x.square().sum(0), a.T @ a, a.sum(0), len(x), len(a))


def _added(one: Maps, other: Maps) -> Maps:
    return Maps(
        *(one.inputs + other.inputs, one.gram + other.gram, one.total + other.total), one.n + other.n, one.m + other.m
    )
