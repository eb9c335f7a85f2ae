"""From a graph to layers: the same picture from a network of equal layers, as arXiv 2505.11581 trains dense ones.

A node of depth l (longest path from an input) sits in hidden layer l. Its value is needed until the layer before its
last consumer's; meanwhile it is carried along by identity neurons with weight 1, the copies. Outputs are carried to the
end. Every layer has the same bank of activations: of each kind as many as any layer needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from monoseme.composition.canvas import INPUTS
from monoseme.composition.genome import Genome, Link, Node
from monoseme.composition.network import Entry, ImageNetwork
from monoseme.core.errors import refuse

__all__ = ["COPY", "layerize"]

COPY = "copy"


def layerize(genome: Genome, dtype: torch.dtype = torch.float32) -> ImageNetwork:
    """Return a layered network that renders the genome's picture, with three outputs also where there is only ink.

    ``origin`` names the link of every weight, or says ``"copy"``; labels of links are carried over. An ink genome gets
    hue and saturation of 0 from two identity nodes behind ink, one layer more, as in 2505.11581.
    """
    genome = _with_colours(genome)
    depths, lives = genome.depths, _lives(genome)
    depth = max(depths[node.id] for node in genome.outputs)
    if depth == 0:
        raise refuse("genome", "have a link to an output", "none", "Connect an output.")
    kinds = {node.id: node.activation for node in genome.nodes}
    layers = [_layer(level, depths, lives, kinds) for level in range(1, depth + 1)]
    bank = _bank(layers)
    slots = [{_input(genome, name): i for i, name in enumerate(INPUTS)}, *(_slots(layer, bank) for layer in layers)]
    weights: list[Tensor] = []
    labels: dict[Entry, str] = {}
    origin: dict[Entry, str] = {}
    for level, layer in enumerate(layers):
        w = torch.zeros(len(bank), len(INPUTS) if level == 0 else len(bank), dtype=dtype)
        for id, kind in layer:
            to = slots[level + 1][id]
            if kind == COPY:
                _put(w, (level, to, slots[level][id]), 1.0, COPY, origin)
                continue
            for link in genome.into[id]:
                entry = (level, to, slots[level][link.source])
                _put(w, entry, link.weight, link.id, origin)
                if link.label:
                    labels[entry] = link.label
        weights.append(w)
    last = torch.zeros(3, len(bank), dtype=dtype)
    for row, node in enumerate(genome.outputs):
        _put(last, (depth, row, slots[depth][node.id]), 1.0, COPY, origin)
    return ImageNetwork([*weights, last], [_names(bank)] * depth, labels, origin)


Layer = list[tuple[str, str]]  # ids with their activation, or "copy"


def _with_colours(genome: Genome) -> Genome:
    if len(genome.outputs) == 3:
        return genome
    ink = genome.outputs[0]
    nodes = [replace(node, label="brightness") if node.id == ink.id else node for node in genome.nodes]
    more = [Node(f"{ink.id}/{name}", "out", "identity", name) for name in ("hue", "saturation")]
    links = [Link(f"{ink.id}/{node.label}", ink.id, node.id, 0.0) for node in more]
    return Genome((*nodes, *more), (*genome.links, *links))


def _lives(genome: Genome) -> dict[str, int]:
    """The last layer in which every value is needed."""
    found = {node.id: 0 for node in genome.nodes}
    for link in genome.links:
        found[link.source] = max(found[link.source], genome.depths[link.target] - 1)
    depth = max(genome.depths[node.id] for node in genome.outputs)
    return {**found, **{node.id: depth for node in genome.outputs}}


def _layer(level: int, depths: Mapping[str, int], lives: dict[str, int], kinds: dict[str, str]) -> Layer:
    made = [(id, kinds[id]) for id, depth in depths.items() if depth == level]
    carried = [(id, COPY) for id, depth in depths.items() if depth < level <= lives[id]]
    return [*carried, *made]


def _bank(layers: list[Layer]) -> list[str]:
    """Kinds of the neurons of every layer: copies first, then activations by name."""
    most: Counter[str] = Counter()
    for layer in layers:
        most |= Counter(kind for _, kind in layer)
    return [COPY] * most[COPY] + [kind for kind in sorted(set(most) - {COPY}) for _ in range(most[kind])]


def _slots(layer: Layer, bank: list[str]) -> dict[str, int]:
    free = {kind: [i for i, k in enumerate(bank) if k == kind][::-1] for kind in set(bank)}
    return {id: free[kind].pop() for id, kind in layer}


def _names(bank: list[str]) -> list[str]:
    return ["identity" if kind == COPY else kind for kind in bank]


def _input(genome: Genome, name: str) -> str:
    found = [node.id for node in genome.nodes if node.kind == "in" and node.label == name]
    return found[0] if found else f"no input {name}"


def _put(w: Tensor, entry: Entry, weight: float, name: str, origin: dict[Entry, str]) -> None:
    if entry in origin:
        got = f"{origin[entry]!r} and {name!r}"
        raise refuse("links", "join two nodes at most once", got, "Replace both by one with the sum of their weights.")
    w[entry[1], entry[2]] = weight
    if weight != 0:
        origin[entry] = name
