"""Scenes by number: random solids under a random or a chosen light, each a pure function of (seed, index)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.worlds.raycast import CAMERA, Camera, Scene, render
from monoseme.worlds.solids import KINDS, Solid

__all__ = ["Scenes", "scenes"]

Angles = float | Sequence[float] | Float64[np.ndarray, " n"] | None

# linear albedos: brick, terracotta, ochre, moss, pine, teal, steel blue, plum
PALETTE = (
    (0.56, 0.10, 0.08),
    (0.68, 0.25, 0.11),
    (0.78, 0.49, 0.10),
    (0.35, 0.45, 0.12),
    (0.08, 0.26, 0.16),
    (0.08, 0.42, 0.42),
    (0.12, 0.27, 0.55),
    (0.35, 0.13, 0.35),
)
STAGE = 1.8  # solids stand within this distance of the origin
GAP = 0.12  # and at least this far apart
TRIES = 50
ELEVATIONS = (20.0, 75.0)  # of lights drawn at random: long shadows, but inside the picture more often than not


@dataclass(frozen=True, eq=False)
class Scenes:
    """A sequence of scenes, rendered when asked for. Make one with `scenes`.

    Attributes
    ----------
    seed
        Of solids and lights.
    azimuth, elevation
        (n,) the light of every scene, degrees.
    layout
        (n,) whose solids each scene shows: its own number, or the same for all.
    size
        Height and width of the pictures.
    objects
        Fewest and most solids a scene.
    supersample, camera
        See `raycast.render`.
    """

    seed: int
    azimuth: Float64[np.ndarray, " n"] = field(repr=False)
    elevation: Float64[np.ndarray, " n"] = field(repr=False)
    layout: tuple[int, ...] = field(repr=False)
    size: int = 128
    objects: tuple[int, int] = (1, 3)
    supersample: int = 2
    camera: Camera = CAMERA

    def __len__(self) -> int:
        return len(self.layout)

    def __getitem__(self, i: int) -> Scene:
        if not -len(self) <= i < len(self):
            raise IndexError(f"scene {i} of {len(self)}")
        light = float(self.azimuth[i]), float(self.elevation[i])
        return render(self.solids(i), *light, self.size, self.camera, self.supersample)

    def __iter__(self) -> Iterator[Scene]:
        return (self[i] for i in range(len(self)))

    def solids(self, i: int) -> tuple[Solid, ...]:
        """What stands in scene i, without rendering it."""
        return _place(rng(self.seed, "solids", self.layout[i]), *self.objects)


def scenes(
    n: int,
    seed: int = 0,
    *,
    size: int = 128,
    objects: tuple[int, int] = (1, 3),
    azimuth: Angles = None,
    elevation: Angles = None,
    layout: int | None = None,
    supersample: int = 2,
) -> Scenes:
    """Spheres, boxes and cones on a plane, with mask, depth, normals and light known exactly.

    Scene i depends on (seed, i) alone, not on n. Fixing or sweeping the light changes nothing else: with `layout` fixed
    too, scenes differ in their light only.

    Parameters
    ----------
    n
        Number of scenes.
    seed
        Of solids and lights.
    size
        Height and width in pixels.
    objects
        Fewest and most solids a scene, uniform between. They keep apart on the plane, but may hide one another.
    azimuth, elevation
        The light in degrees, see `Scene`: one for all, one for each, or None to draw them: azimuth uniform on the
        circle, elevation uniform in [20, 75].
    layout
        Show the solids of this scene in all of them.
    supersample
        Rays a pixel and axis for the picture.

    Raises
    ------
    UserError
        No scenes, a number of objects outside 0..12, angles that are not n, or a light not above the plane.

    Examples
    --------
    >>> sweep = scenes(4, seed=0, size=32, azimuth=[0, 90, 180, 270], elevation=30, layout=2)
    >>> sweep[1].image.shape, sweep[1].azimuth, sweep.solids(0) == sweep.solids(3)
    ((32, 32, 3), 90.0, True)
    """
    if n < 1:
        raise refuse("n", "be at least 1", n, "Ask for some scenes.")
    low, high = objects
    if not 0 <= low <= high <= 12:
        raise refuse("objects", "be (fewest, most) in 0..12", objects, "The stage holds no more.")
    at = _angles("azimuth", azimuth, n, seed, 0.0, 360.0)
    above = _angles("elevation", elevation, n, seed, *ELEVATIONS)
    if not ((above > 0) & (above <= 90)).all():
        raise refuse("elevation", "lie in (0, 90] degrees", elevation, "The light stands above the plane.")
    for name, value in (("size", size), ("supersample", supersample)):
        if value < 1:
            raise refuse(name, "be at least 1", value, "128 pixels and 2 rays an axis are usual.")
    shown = tuple(range(n)) if layout is None else (layout,) * n
    return Scenes(seed, at, above, shown, size, objects, supersample)


def _angles(name: str, given: Angles, n: int, seed: int, low: float, high: float) -> Float64[np.ndarray, " n"]:
    if given is None:
        return np.array([rng(seed, name, i).uniform(low, high) for i in range(n)])
    angles = np.asarray(given, dtype=np.float64)
    if angles.ndim == 0:
        angles = np.full(n, float(angles))
    if angles.shape != (n,) or not np.isfinite(angles).all():
        raise refuse(name, f"be one angle, or {n}", angles.shape, "Give one for all, or one for each scene.")
    return angles


def _place(stream: np.random.Generator, low: int, high: int) -> tuple[Solid, ...]:
    """Solids that keep apart; whatever finds no room within a few tries is drawn a little smaller."""
    count = int(stream.integers(low, high + 1))
    colours = stream.permutation(len(PALETTE))
    placed: list[Solid] = []
    while len(placed) < count:
        kind = KINDS[int(stream.integers(len(KINDS)))]
        radius, stretch, turn = stream.uniform(0.4, 0.75), stream.uniform(1.4, 2.6), stream.uniform(0, 90)
        # a box looks larger than it is; a crowd needs room
        radius *= (0.8 if kind == "box" else 1.0) * min(1.0, math.sqrt(3 / count))
        spot = None
        while spot is None:
            spot = _free(stream, placed, radius * _reach(kind))
            radius *= 1.0 if spot else 0.9
        colour = PALETTE[colours[len(placed) % len(PALETTE)]]
        height = radius * (stretch if kind != "sphere" else 2.0)
        placed.append(Solid(kind, *spot, float(radius), float(height), float(turn) if kind == "box" else 0.0, colour))
    return tuple(placed)


def _reach(kind: str) -> float:
    """How far a solid's footprint reaches from its centre, in radii: to a box's corner."""
    return math.sqrt(2) if kind == "box" else 1.0


def _free(stream: np.random.Generator, placed: Sequence[Solid], reach: float) -> tuple[float, float] | None:
    for _ in range(TRIES):
        distance, angle = STAGE * math.sqrt(stream.uniform()), stream.uniform(0, 2 * math.pi)
        x, y = distance * math.cos(angle), distance * math.sin(angle)
        if all(math.hypot(x - s.x, y - s.y) > reach + s.radius * _reach(s.kind) + GAP for s in placed):
            return x, y
    return None
