"""A pattern-producing network as a graph: nodes with an activation, links with a weight (Stanley 2007; Picbreeder)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.activations import ACTIVATIONS
from monoseme.composition.canvas import INPUTS, coordinates, to_rgb
from monoseme.core.errors import closest, refuse

__all__ = ["COLOURS", "Genome", "Link", "Node"]

COLOURS = (("ink",), ("hue", "saturation", "brightness"))


@dataclass(frozen=True)
class Node:
    """A neuron. Inputs are called x, y, d, bias; outputs ink, or hue, saturation, brightness."""

    id: str
    kind: str
    activation: str = "identity"
    label: str = ""


@dataclass(frozen=True)
class Link:
    """A weighted connection; `sweep` are the ends between which a person has found its effect, `label` what it does."""

    id: str
    source: str
    target: str
    weight: float
    label: str = ""
    sweep: tuple[float, float] | None = None


@dataclass(frozen=True)
class Genome:
    """Nodes and links without a cycle."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        known = {node.id for node in self.nodes}
        if len(known) != len(self.nodes):
            raise refuse("nodes", "have different ids", f"{len(self.nodes)} with {len(known)} ids", "Rename some.")
        for node in self.nodes:
            if node.activation not in ACTIVATIONS:
                fix = closest(node.activation, ACTIVATIONS)
                raise refuse("activation", f"be one of {', '.join(ACTIVATIONS)}", repr(node.activation), fix)
            if node.kind not in ("in", "hidden", "out"):
                raise refuse("kind", "be 'in', 'hidden' or 'out'", repr(node.kind), "See Node.")
            if node.kind == "in" and node.label not in INPUTS:
                raise refuse("label", f"of an input be one of {', '.join(INPUTS)}", repr(node.label), "Name it so.")
        for link in self.links:
            if missing := {link.source, link.target} - known:
                raise refuse(
                    "links", "join nodes of the genome", f"{link.id!r} with {missing.pop()!r}", "Add the node."
                )
            if not abs(link.weight) < float("inf"):
                raise refuse("weight", "be finite", f"{link.weight} of link {link.id!r}", "Correct it.")
        if tuple(node.label for node in self.outputs) not in COLOURS:
            got = ", ".join(node.label for node in self.nodes if node.kind == "out") or "none"
            raise refuse("outputs", "be ink, or hue, saturation and brightness", got, "Label the output nodes.")
        _ = self.order  # refuses a cycle

    @cached_property
    def outputs(self) -> tuple[Node, ...]:
        """Output nodes in the order of their colours."""
        ranks = {name: i for i, name in enumerate(("ink", *COLOURS[1]))}
        found = [node for node in self.nodes if node.kind == "out"]
        return tuple(sorted(found, key=lambda node: ranks.get(node.label, len(ranks))))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Ids so that every link leads forward (Kahn 1962)."""
        waiting = {node.id: 0 for node in self.nodes}
        leaving: dict[str, list[str]] = {node.id: [] for node in self.nodes}
        for link in self.links:
            waiting[link.target] += 1
            leaving[link.source].append(link.target)
        ready, done = [id for id, count in waiting.items() if count == 0], []
        while ready:
            done.append(ready.pop())
            for target in leaving[done[-1]]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        if len(done) < len(self.nodes):
            stuck = next(id for id, count in waiting.items() if count > 0 and id not in done)
            raise refuse("links", "have no cycle", f"one through node {stuck!r}", "Remove one of its links.")
        return tuple(done)

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Longest path from an input, of every node; 0 for inputs and for nodes that nothing reaches."""
        found = dict.fromkeys(self.order, 0)
        into = self.into
        for id in self.order:
            found[id] = max((found[link.source] + 1 for link in into[id]), default=0)
        return found

    @cached_property
    def into(self) -> Mapping[str, list[Link]]:
        """Links by target."""
        found: dict[str, list[Link]] = {node.id: [] for node in self.nodes}
        for link in self.links:
            found[link.target].append(link)
        return found

    def values(self, coords: Float[Tensor, "P 4"]) -> dict[str, Float[Tensor, " P"]]:
        """Values of every node at every pixel, one node after another: the slow, obvious way."""
        nodes, found = {node.id: node for node in self.nodes}, {}
        for id in self.order:
            node = nodes[id]
            if node.kind == "in":
                found[id] = coords[:, INPUTS.index(node.label)]
                continue
            total = torch.zeros_like(coords[:, 0])
            for link in self.into[id]:
                total = total + link.weight * found[link.source]
            found[id] = ACTIVATIONS[node.activation](total)
        return found

    def render(self, size: int, dtype: torch.dtype = torch.float64) -> Float[Tensor, "size size 3"]:
        """The picture, RGB in 0…1, float64 by default."""
        found = self.values(coordinates(size, dtype))
        return to_rgb(torch.stack([found[node.id] for node in self.outputs], -1)).reshape(size, size, 3)

    def with_weights(self, weights: Mapping[str, float]) -> Genome:
        """The same graph with other weights of some links, by id."""
        known = {link.id for link in self.links}
        if unknown := set(weights) - known:
            raise refuse("weights", "name links of the genome", repr(unknown.pop()), "See genome.links.")
        return replace(self, links=tuple(replace(k, weight=weights.get(k.id, k.weight)) for k in self.links))
