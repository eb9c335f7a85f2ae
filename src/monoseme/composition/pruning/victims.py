"""Which neurons go first: one function a method, each gives victims in order.

Similarity pruning (arXiv 2606.19941) looks for neurons of one layer whose maps are alike, and takes one of the two
away, at random. The paper's threshold is not known; a converged dense network has hardly a pair above 0.95, so the most
similar pairs are taken first, and a threshold is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from monoseme.composition.pruning.layers import Layer, Maps
from monoseme.composition.pruning.taylor import taylor

__all__ = ["NEURONS", "Victim"]

Victim = tuple[int, int, float]  # layer, neuron, and the number that chose it
Chooser = Callable[[list[Layer], list[Maps], np.random.Generator, Mapping[str, Any]], Iterator[Victim]]


def similar(
    layers: list[Layer], maps: list[Maps], random: np.random.Generator, options: Mapping[str, Any]
) -> Iterator[Victim]:
    """Pairs of the most similar maps of all layers, most similar first; of each, one at random.

    Options: `threshold` (none below it), `pairs` (at most so many), `centred`, `signed` (cosine instead of |cosine|).
    """
    pairs: list[tuple[float, int, int, int]] = []
    for index, (layer, one) in enumerate(zip(layers, maps, strict=True)):
        if layer.next is None:
            continue
        cosine = one.cosines(bool(options.get("centred", False)))
        cosine = cosine if options.get("signed", False) else cosine.abs()
        rows, columns = torch.triu_indices(len(cosine), len(cosine), 1)
        values = cosine[rows, columns]
        pairs += [(v, index, i, j) for v, i, j in zip(values.tolist(), rows.tolist(), columns.tolist(), strict=True)]
    pairs.sort(key=lambda pair: -pair[0])
    gone: set[tuple[int, int]] = set()
    for value, index, *both in pairs:
        if value <= float(options.get("threshold", 0.0)) or len(gone) >= int(options.get("pairs", len(pairs))):
            return
        live = [n for n in both if (index, n) not in gone and bool(layers[index].kept[n])]
        if len(live) == 2:
            victim = live[int(random.integers(2))]
            gone.add((index, victim))
            yield index, victim, value


def random_neurons(
    layers: list[Layer], _maps: list[Maps], random: np.random.Generator, _options: Mapping[str, Any]
) -> Iterator[Victim]:
    """Neurons at random: similarity pruning with random pairs."""
    live = [(i, n) for i, layer in enumerate(layers) if layer.next is not None for n in _kept(layer)]
    for at in random.permutation(len(live)):
        yield (*live[at], 0.0)


def geometric_median(
    layers: list[Layer], _maps: list[Maps], _random: np.random.Generator, _options: Mapping[str, Any]
) -> Iterator[Victim]:
    """FPGM (He et al., arXiv 1811.00250): least mean distance of a neuron's weights to the others' of its layer."""
    found: list[tuple[float, int, int]] = []
    for index, layer in enumerate(layers):
        if layer.next is None:
            continue
        rows = layer.weight.detach().double().flatten(1)
        kept = _kept(layer)
        distance = torch.cdist(rows[kept], rows[kept]).sum(1) / rows[kept].norm(dim=1).mean().clamp(min=1e-300)
        found += [(d / max(len(kept), 1), index, n) for d, n in zip(distance.tolist(), kept, strict=True)]
    for value, index, neuron in sorted(found):
        yield index, neuron, value


def _kept(layer: Layer) -> list[int]:
    return torch.nonzero(layer.kept).flatten().tolist()


NEURONS: dict[str, Chooser] = {
    "similarity": similar,
    "random-neurons": random_neurons,
    "fpgm": geometric_median,
    "taylor": taylor,
}
