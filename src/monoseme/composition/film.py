"""Looking at a network: one weight swept, and the map of every neuron."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.canvas import coordinates
from monoseme.composition.genome import Genome
from monoseme.composition.network import Entry, ImageNetwork
from monoseme.core.errors import closest, refuse

__all__ = ["diverging", "map_pictures", "principal_maps", "sweep_weight"]

DELTAS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def sweep_weight(
    network: ImageNetwork | Genome, which: Entry | str, deltas: Sequence[float] = DELTAS, size: int = 128
) -> Float[Tensor, "k size size 3"]:
    """Pictures with one weight moved: of a genome by the id of a link, of a network by (layer, to, from)."""
    if not deltas:
        raise refuse("deltas", "be at least one number", "none", "(-1, 0, 1) is a start.")
    if isinstance(network, Genome):
        weights = {link.id: link.weight for link in network.links}
        if which not in weights:
            raise refuse("which", "be the id of a link", repr(which), closest(str(which), weights))
        moved = [network.with_weights({str(which): weights[str(which)] + delta}) for delta in deltas]
        return torch.stack([genome.render(size) for genome in moved])
    if not isinstance(which, tuple) or len(which) != 3 or not _there(network, which):
        rule = "be (layer, to, from) inside the network's matrices"
        raise refuse("which", rule, repr(which), f"Layers are 0..{len(network.weights) - 1}.")
    weight, place = network.weights[which[0]], (which[1], which[2])
    before = float(weight.detach()[place])
    found = []
    try:
        for delta in deltas:
            with torch.no_grad():
                weight[place] = before + delta
            found.append(network.render(size))
    finally:
        with torch.no_grad():
            weight[place] = before
    return torch.stack(found)


def _there(network: ImageNetwork, which: Entry) -> bool:
    layer, to, from_ = which
    if not 0 <= layer < len(network.weights):
        return False
    rows, columns = network.weights[layer].shape
    return 0 <= to < rows and 0 <= from_ < columns


def map_pictures(network: ImageNetwork, size: int = 64) -> list[Float[Tensor, "n size size 3"]]:
    """The map of every neuron, layer after layer, outputs last: blue at -1, white at 0, red at 1."""
    like = network.weights[0]
    maps = network.maps(coordinates(size, like.dtype).to(like.device))
    return [diverging(layer.T.reshape(-1, size, size)) for layer in maps]


def principal_maps(
    network: ImageNetwork, layer: int, size: int = 64, count: int = 8
) -> tuple[Float[Tensor, "k size size 3"], Float[Tensor, " k"]]:
    """The control: principal components of a layer's maps, each scaled to its largest value, and their variance shares.

    What no single neuron shows may be there in combination; a neuron that means something beats these.
    """
    like = network.weights[0]
    maps = network.maps(coordinates(size, like.dtype).to(like.device))
    if not 0 <= layer < len(maps):
        raise refuse("layer", f"lie in 0..{len(maps) - 1}", layer, "The last are the outputs.")
    centred = maps[layer] - maps[layer].mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    kept = min(count, len(s))
    scaled = u[:, :kept] / u[:, :kept].abs().amax(0).clamp(min=1e-12)
    share = s.square() / s.square().sum().clamp(min=1e-30)
    return diverging(scaled.T.reshape(kept, size, size)), share[:kept]


def diverging(values: Float[Tensor, "... h w"]) -> Float[Tensor, "... h w 3"]:
    """Colours of numbers from -1 to 1; beyond is cut."""
    v = values.clamp(-1, 1)[..., None]
    below, above = (v.new_tensor(c) / 255 for c in ((33, 84, 156), (178, 34, 52)))
    return torch.where(v < 0, 1 + v * (1 - below), 1 - v * (1 - above))
