"""The eight manifolds of the synthetic benchmark of Block-Sparse Featurizers (arXiv 2606.25234, App. H).

Each is a map γ from d intrinsic coordinates to a span of b dimensions. The paper names the maps but not all the ranges:
those are fields here, and docs/worlds.md says for each why its default was chosen.

Coordinates are drawn uniformly over their ranges, with two exceptions: the disk (the paper's r ~ √U) and the sphere
(uniform on its surface), where uniform angles would pile points up at a pole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

__all__ = ["CURVED", "Circle", "Disk", "Helix", "Manifold", "Moebius", "Segment", "Sphere", "SwissRoll", "Torus"]

TURN = 2 * math.pi
Coordinates = Float64[np.ndarray, "n c"]
Points = Float64[np.ndarray, "n b"]


@runtime_checkable
class Manifold(Protocol):
    """A type of factor: how to draw intrinsic coordinates, and where they lie in its span.

    Attributes
    ----------
    kind
        Name of the type.
    d
        Intrinsic dimension, the number of coordinates.
    b
        Dimension of the span.
    """

    kind: ClassVar[str]
    d: ClassVar[int]
    b: ClassVar[int]

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """`n` points, as (n, d) intrinsic coordinates."""
        ...

    def embed(self, coordinates: Coordinates) -> Points:
        """γ: (n, d) coordinates to (n, b) raw points, neither centred nor scaled."""
        ...


def _uniform(stream: np.random.Generator, n: int, *ranges: tuple[float, float]) -> Coordinates:
    return np.stack([stream.uniform(low, high, n) for low, high in ranges], axis=1)


@dataclass(frozen=True)
class Segment:
    """γ(t) = (t), t ∈ [−1, 1]. The range is no choice: every interval is the same after centring and scaling."""

    kind: ClassVar[str] = "segment"
    d: ClassVar[int] = 1
    b: ClassVar[int] = 1

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw t."""
        return _uniform(stream, n, (-1.0, 1.0))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(t)."""
        return coordinates.copy()


@dataclass(frozen=True)
class Circle:
    """γ(θ) = (cos θ, sin θ)."""

    kind: ClassVar[str] = "circle"
    d: ClassVar[int] = 1
    b: ClassVar[int] = 2

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw θ."""
        return _uniform(stream, n, (0.0, TURN))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(θ)."""
        theta = coordinates[:, 0]
        return np.stack([np.cos(theta), np.sin(theta)], axis=1)


@dataclass(frozen=True)
class Disk:
    """γ(r, θ) = (r cos θ, r sin θ), r = √U(0, 1): uniform by area."""

    kind: ClassVar[str] = "disk"
    d: ClassVar[int] = 2
    b: ClassVar[int] = 2

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw (r, θ)."""
        coordinates = _uniform(stream, n, (0.0, 1.0), (0.0, TURN))
        coordinates[:, 0] = np.sqrt(coordinates[:, 0])
        return coordinates

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(r, θ)."""
        r, theta = coordinates.T
        return np.stack([r * np.cos(theta), r * np.sin(theta)], axis=1)


@dataclass(frozen=True)
class Sphere:
    """γ(φ, θ) = (sin φ cos θ, sin φ sin θ, cos φ), cos φ ~ U(−1, 1): uniform on the surface."""

    kind: ClassVar[str] = "sphere"
    d: ClassVar[int] = 2
    b: ClassVar[int] = 3

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw (φ, θ)."""
        coordinates = _uniform(stream, n, (-1.0, 1.0), (0.0, TURN))
        coordinates[:, 0] = np.arccos(coordinates[:, 0])
        return coordinates

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(φ, θ)."""
        phi, theta = coordinates.T
        return np.stack([np.sin(phi) * np.cos(theta), np.sin(phi) * np.sin(theta), np.cos(phi)], axis=1)


@dataclass(frozen=True)
class Torus:
    """γ(θ, φ) = ((R + r cos φ) cos θ, (R + r cos φ) sin θ, r sin φ), both angles uniform.

    Attributes
    ----------
    major, minor
        R and r. Not given in the paper.
    """

    major: float = 2.0
    minor: float = 0.55
    kind: ClassVar[str] = "torus"
    d: ClassVar[int] = 2
    b: ClassVar[int] = 3

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw (θ, φ)."""
        return _uniform(stream, n, (0.0, TURN), (0.0, TURN))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(θ, φ)."""
        theta, phi = coordinates.T
        rho = self.major + self.minor * np.cos(phi)
        return np.stack([rho * np.cos(theta), rho * np.sin(theta), self.minor * np.sin(phi)], axis=1)


@dataclass(frozen=True)
class Moebius:
    """γ(φ, t) = ((1 + t cos(φ/2)) cos φ, (1 + t cos(φ/2)) sin φ, t sin(φ/2)).

    Attributes
    ----------
    half_width
        t ∈ [−half_width, half_width]. Not given in the paper.
    """

    half_width: float = 0.45
    kind: ClassVar[str] = "möbius"
    d: ClassVar[int] = 2
    b: ClassVar[int] = 3

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw (φ, t)."""
        return _uniform(stream, n, (0.0, TURN), (-self.half_width, self.half_width))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(φ, t)."""
        phi, t = coordinates.T
        rho = 1 + t * np.cos(phi / 2)
        return np.stack([rho * np.cos(phi), rho * np.sin(phi), t * np.sin(phi / 2)], axis=1)


@dataclass(frozen=True)
class SwissRoll:
    """γ(θ, h) = (θ cos θ, h, θ sin θ).

    Attributes
    ----------
    first, last
        θ ∈ [first, last]. The paper gives only "up to about 4.5π".
    half_height
        h ∈ [−half_height, half_height]. Not given in the paper.
    """

    first: float = 1.5 * math.pi
    last: float = 4.5 * math.pi
    half_height: float = 1.0
    kind: ClassVar[str] = "swiss roll"
    d: ClassVar[int] = 2
    b: ClassVar[int] = 3

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw (θ, h)."""
        return _uniform(stream, n, (self.first, self.last), (-self.half_height, self.half_height))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(θ, h)."""
        theta, h = coordinates.T
        return np.stack([theta * np.cos(theta), h, theta * np.sin(theta)], axis=1)


@dataclass(frozen=True)
class Helix:
    """γ(θ) = (cos θ, sin θ, αθ), θ uniform from 0.

    Attributes
    ----------
    turns
        θ ∈ [0, 2π · turns]. Not given in the paper.
    pitch
        α. Not given in the paper.
    """

    turns: float = 2.0
    pitch: float = 0.2
    kind: ClassVar[str] = "helix"
    d: ClassVar[int] = 1
    b: ClassVar[int] = 3

    def draw(self, stream: np.random.Generator, n: int) -> Coordinates:
        """Draw θ."""
        return _uniform(stream, n, (0.0, TURN * self.turns))

    def embed(self, coordinates: Coordinates) -> Points:
        """Return γ(θ)."""
        theta = coordinates[:, 0]
        return np.stack([np.cos(theta), np.sin(theta), self.pitch * theta], axis=1)


CURVED: tuple[Manifold, ...] = (Circle(), Disk(), Sphere(), Torus(), Moebius(), SwissRoll(), Helix())
"""The seven curved types, in the order of the paper's table; a world cycles through them."""
