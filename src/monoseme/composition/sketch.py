"""A pencil for genomes: nodes one after another, and the shapes that scenes are put together from.

A region is a node that is near 1 inside and near -1 outside. Two bumps, one across and one along, add up to nearly 2
only where both are high; a steep sigmoid cuts that out. A mirrored coordinate, an even bump of x, puts both halves of a
picture into one node: what a person would call symmetry is one set of weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from monoseme.composition.genome import Genome, Link, Node
from monoseme.core.errors import refuse

__all__ = ["Mirror", "Sketch"]

CUT = 1.6  # of two bumps that add up to 2 in the middle: near 2 regions are round, near 1 they are diamonds
EDGE = math.sqrt(-math.log(CUT / 2))  # where one bump has fallen so far, on the axis
STEEP = 16.0

Terms = Mapping[str, float]


@dataclass(frozen=True)
class Mirror:
    """An even bump of x, 2 e^{-(s x)²} - 1, as a coordinate: its value at a distance, and its fall there."""

    node: str
    sharpness: float

    def at(self, x: float) -> float:
        """Value at distance x from the axis."""
        return 2 * math.exp(-((self.sharpness * x) ** 2)) - 1

    def slope(self, x: float) -> float:
        """Fall per unit of distance there."""
        return 4 * self.sharpness**2 * x * math.exp(-((self.sharpness * x) ** 2))


@dataclass
class Sketch:
    """Nodes and links so far. Names are ids; links are called ``source>target``."""

    nodes: list[Node] = field(default_factory=lambda: [Node(n, "in", "identity", n) for n in ("x", "y", "d", "bias")])
    links: list[Link] = field(default_factory=list)

    def node(self, name: str, activation: str, terms: Terms, labels: Mapping[str, str] | None = None) -> str:
        """Add a hidden node that sums weighted others; `labels` name links, by source."""
        self.nodes.append(Node(name, "hidden", activation))
        self._join(name, terms, labels or {})
        return name

    def out(self, name: str, terms: Terms, labels: Mapping[str, str] | None = None) -> None:
        """Add an output: ink, hue, saturation or brightness; it is linear."""
        self.nodes.append(Node(name, "out", "identity", name))
        self._join(name, terms, labels or {})

    def mirror(self, name: str, sharpness: float) -> Mirror:
        """The even coordinate."""
        return Mirror(self.node(name, "gaussian", {"x": sharpness}, {"x": "distance between both halves"}), sharpness)

    def bump(self, name: str, along: Terms, centre: float, half: float, labels: Mapping[str, str] | None = None) -> str:
        """1 where the weighted sum is `centre`, less by the cut at `half` from it."""
        s = EDGE / half
        terms = {source: weight * s for source, weight in along.items()}
        terms["bias"] = terms.get("bias", 0.0) - centre * s
        return self.node(name, "gaussian", terms, labels)

    def region(self, name: str, across: str, along: str, label: str = "") -> str:
        """Inside where two bumps are high together."""
        labels = {"bias": label} if label else {}
        return self.node(name, "sigmoid", {across: STEEP, along: STEEP, "bias": -CUT * STEEP}, labels)

    def edge(self, name: str, along: Terms, at: float, labels: Mapping[str, str] | None = None) -> str:
        """1 where the weighted sum is above `at`, -1 below, with a soft edge."""
        terms = {source: 2 * STEEP * weight for source, weight in along.items()}
        terms["bias"] = terms.get("bias", 0.0) - 2 * STEEP * at
        return self.node(name, "sigmoid", terms, labels)

    def all_of(self, name: str, regions: list[str]) -> str:
        """Inside where all are."""
        return self.node(name, "sigmoid", {**dict.fromkeys(regions, 5.0), "bias": -5.0 * (len(regions) - 1) + 0.5})

    def blob(self, name: str, centre: tuple[float, float], half: tuple[float, float], label: str = "") -> str:
        """A rounded region with a centre and half sizes."""
        said = {"x": f"{label} width", "y": f"{label} height"} if label else {}
        across = self.bump(f"{name} across", {"x": 1.0}, centre[0], half[0], said)
        along = self.bump(f"{name} along", {"y": 1.0}, centre[1], half[1], said)
        return self.region(name, across, along, f"{label} size" if label else "")

    def twins(
        self, name: str, mirror: Mirror, centre: tuple[float, float], half: tuple[float, float], label: str = ""
    ) -> str:
        """The same region on both sides of the axis, in one set of weights."""
        x, y = centre
        if mirror.slope(x) < 1e-3:
            raise refuse("centre", "lie where the mirror has a slope", x, "Move it off the axis, or use blob.")
        said = {mirror.node: f"{label} width", "y": f"{label} height"} if label else {}
        across = self.bump(f"{name} across", {mirror.node: 1.0}, mirror.at(x), mirror.slope(x) * half[0], said)
        along = self.bump(f"{name} along", {"y": 1.0}, y, half[1], said)
        return self.region(name, across, along, f"{label} size" if label else "")

    def genome(self) -> Genome:
        """What was drawn."""
        return Genome(tuple(self.nodes), tuple(self.links))

    def _join(self, target: str, terms: Terms, labels: Mapping[str, str]) -> None:
        for source, weight in terms.items():
            if weight != 0:
                self.links.append(Link(f"{source}>{target}", source, target, weight, labels.get(source, "")))
