"""How sparsely a function is put together: arity of its constituents, how many kinds, how deep.

A function on a graph of constituent functions, each of few variables, can be learnt without the curse of the number of
its inputs (Poggio and others, arXiv 2507.02550). What counts is the largest arity, not the number of links.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from monoseme.composition.genome import Genome
from monoseme.composition.network import ImageNetwork

__all__ = ["GraphSparsity", "graph_sparsity"]


@dataclass(frozen=True)
class GraphSparsity:
    """Of a graph without cycles; links of weight 0, and nodes that no output needs, are left out.

    Attributes
    ----------
    nodes, links, depth
        Constituents (not inputs), links between them, and the longest path from an input in links.
    arity_mean, arity_max
        Variables a constituent reads; lower is sparser.
    primitives
        Different kinds of constituents: an activation with its arity.
    density
        Links ÷ the links of a dense layered network of the same layers and widths.
    """

    nodes: int
    links: int
    depth: int
    arity_mean: float
    arity_max: int
    primitives: int
    density: float


def graph_sparsity(network: Genome | ImageNetwork) -> GraphSparsity:
    """Measure a genome, or a layered network (copies that only pass a value on count as nodes there)."""
    if isinstance(network, Genome):
        kinds = {node.id: node.activation for node in network.nodes if node.kind != "in"}
        outputs = [node.id for node in network.outputs]
        pairs = [(link.source, link.target) for link in network.links if link.weight != 0]
    else:
        names = [["identity"] * 4, *(bank.names for bank in network.banks), ["identity"] * network.outputs]
        kinds = {f"{level}/{i}": kind for level, layer in enumerate(names) if level for i, kind in enumerate(layer)}
        outputs = [f"{len(names) - 1}/{i}" for i in range(network.outputs)]
        pairs = [(f"{layer}/{from_}", f"{layer + 1}/{to}") for layer, to, from_ in network.entries()]
    return _measure(kinds, outputs, pairs)


def _measure(kinds: dict[str, str], outputs: list[str], pairs: list[tuple[str, str]]) -> GraphSparsity:
    into: dict[str, list[str]] = {}
    for source, target in pairs:
        into.setdefault(target, []).append(source)
    needed, waiting = set(outputs), list(outputs)
    while waiting:
        for source in into.get(waiting.pop(), []):
            if source not in needed:
                needed.add(source)
                waiting.append(source)
    arity = {node: len(into.get(node, [])) for node in kinds if node in needed and node in into}
    level: dict[str, int] = {}
    # sources of a node come before it once all of them have a level: as many rounds as the graph is deep
    open_ = set(arity)
    while open_:
        ready = {node for node in open_ if all(source not in open_ for source in into[node])}
        level |= {node: 1 + max(level.get(source, 0) for source in into[node]) for node in ready}
        open_ -= ready
    inputs = len({source for node in arity for source in into[node] if source not in kinds})
    widths = Counter(level.values())
    sizes = [inputs, *(widths[i] for i in range(1, max(widths, default=0) + 1))]
    dense = sum(a * b for a, b in itertools.pairwise(sizes))
    links = sum(arity.values())
    return GraphSparsity(
        len(arity),
        links,
        max(level.values(), default=0),
        links / max(len(arity), 1),
        max(arity.values(), default=0),
        len({(kinds[node], n) for node, n in arity.items()}),
        links / dense if dense else 0.0,
    )
