"""A pruned network made smaller: neurons that nothing reads, or that are 0, are taken out; outputs are equal."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from monoseme.composition.activations import ACTIVATIONS
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse

__all__ = ["compact"]


@torch.no_grad()
def compact(module: nn.Module) -> nn.Module:
    """Return a smaller module with the same outputs; the one given is left as it is.

    Of an `ImageNetwork` (masks applied), or a plain nn.Sequential of linear and convolution layers with modules without
    parameters between them. At least one neuron stays in every layer.

    Raises
    ------
    UserError
        For other modules: what reads a neuron there is not known.
    """
    if isinstance(module, ImageNetwork):
        return _image(module)
    if not isinstance(module, nn.Sequential) or any(list(child.children()) for child in module):
        fix = "Masked weights are 0 there already; shapes stay."
        raise refuse("module", "be an image network or a plain nn.Sequential", type(module).__name__, fix)
    return _chain(module)


def _image(network: ImageNetwork) -> ImageNetwork:
    weights = [w.detach().clone() for w in network.matrices]
    names = [list(bank.names) for bank in network.banks]
    silent = {name: float(act(torch.zeros(()))) == 0 for name, act in ACTIVATIONS.items()}
    while True:
        before = [len(layer) for layer in names]
        for level, layer in enumerate(names):
            quiet = torch.tensor([silent[name] for name in layer])
            read, fed = weights[level + 1].any(0), weights[level].any(1)
            kept = _at_least_one(read & (fed | ~quiet))
            weights[level], weights[level + 1] = weights[level][kept], weights[level + 1][:, kept]
            names[level] = [name for name, keep in zip(layer, kept.tolist(), strict=True) if keep]
        if [len(layer) for layer in names] == before:
            return ImageNetwork(weights, names)


def _chain(module: nn.Sequential) -> nn.Sequential:
    made = copy.deepcopy(module)
    layers = [child for child in made if isinstance(child, (nn.Linear, nn.Conv2d))]
    for child in made:
        if child not in layers and list(child.parameters()) + list(child.buffers()):
            got = type(child).__name__
            raise refuse("module", "have nothing with parameters between its layers", got, "Fold it in first.")
    # from the end: what nothing reads there may be all that reads something before
    for i in range(len(layers) - 2, -1, -1):
        layer, after = layers[i], layers[i + 1]
        if isinstance(layer, nn.Conv2d) and (layer.groups > 1 or (isinstance(after, nn.Conv2d) and after.groups > 1)):
            raise refuse("module", "have convolutions of one group", f"{layer.groups} groups", "Shapes stay there.")
        columns = after.weight.shape[1] // layer.weight.shape[0]
        read = after.weight.reshape(after.weight.shape[0], layer.weight.shape[0], -1).any(2).any(0)
        kept = _at_least_one(read)
        _rows(layer, kept)
        _columns(after, kept.repeat_interleave(columns))
    return made


def _at_least_one(kept: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
    if not bool(kept.any()):
        kept = kept.clone()
        kept[0] = True
    return kept


def _rows(layer: nn.Linear | nn.Conv2d, kept: Tensor) -> None:
    layer.weight = nn.Parameter(layer.weight[kept].clone())
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[kept].clone())
    if isinstance(layer, nn.Linear):
        layer.out_features = len(layer.weight)
    else:
        layer.out_channels = len(layer.weight)


def _columns(layer: nn.Linear | nn.Conv2d, kept: Tensor) -> None:
    layer.weight = nn.Parameter(layer.weight[:, kept].clone())
    if isinstance(layer, nn.Linear):
        layer.in_features = layer.weight.shape[1]
    else:
        layer.in_channels = layer.weight.shape[1]
