"""Solids that stand on the plane z = 0, and where rays meet them. x points right, y away from the camera, z up.

Rays are columns: an origin (3, n) or (3, 1), directions (3, n). Distances are in units of the direction's length, and
infinite where nothing is met. Only outer faces are met, from outside: no ray starts inside a solid, and none comes from
below the plane, so cones need no base.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import closest, refuse

__all__ = ["KINDS", "Solid", "meet", "normals_at"]

KINDS = ("sphere", "box", "cone")
Columns = Float64[np.ndarray, "3 _"]


@dataclass(frozen=True)
class Solid:
    """A sphere, box or cone on the plane.

    Attributes
    ----------
    kind
        ``"sphere"``, ``"box"`` or ``"cone"``.
    x, y
        Where its centre stands.
    radius
        Of the sphere, or of the cone's base; half the side of the box.
    height
        Of the box or cone; a sphere is 2 · radius high whatever stands here.
    turn
        Of a box about the vertical, degrees, counter-clockwise seen from above.
    colour
        Albedo, linear red, green, blue in [0, 1].
    """

    kind: str
    x: float
    y: float
    radius: float
    height: float = 1.0
    turn: float = 0.0
    colour: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise refuse("kind", "name a solid", self.kind, closest(self.kind, KINDS))
        for name, value in (("radius", self.radius), ("height", self.height)):
            if not 0 < value < math.inf:
                raise refuse(name, "be above 0", value, "Lengths are in units of the plane.")
        if not all(0 <= share <= 1 for share in self.colour):
            raise refuse(
                "colour", "lie in [0, 1], linear", self.colour, "Divide 8-bit values by 255 and linearise them."
            )

    def local(self, points: Columns) -> Columns:
        """Columns in the solid's own frame: its foot at the origin, turned back."""
        return self.turned(points - np.array([[self.x], [self.y], [0.0]]), -self.turn)

    def turned(self, columns: Columns, degrees: float) -> Columns:
        """Columns turned about the vertical; round solids need no turning."""
        if self.kind != "box":
            return columns
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        return np.stack([c * columns[0] - s * columns[1], s * columns[0] + c * columns[1], columns[2]])


def meet(solid: Solid, origin: Columns, direction: Columns) -> Float64[np.ndarray, " n"]:
    """How far along each ray the solid is first met; infinite where it is not."""
    near = solid.local(origin)
    with np.errstate(divide="ignore", invalid="ignore"):
        if solid.kind == "sphere":
            return _sphere(solid, near, direction)
        if solid.kind == "box":
            return _box(solid, near, solid.turned(direction, -solid.turn))
        return _cone(solid, near, direction)


def _sphere(solid: Solid, o: Columns, d: Columns) -> Float64[np.ndarray, " n"]:
    o = o - np.array([[0.0], [0.0], [solid.radius]])
    a, b, c = (d * d).sum(0), (o * d).sum(0), (o * o).sum(0) - solid.radius**2
    inside = b * b - a * c
    t = (-b - np.sqrt(np.maximum(inside, 0))) / a
    return np.where((inside > 0) & (t > 0), t, np.inf)


def _box(solid: Solid, o: Columns, d: Columns) -> Float64[np.ndarray, " n"]:
    half = np.array([[solid.radius], [solid.radius], [solid.height / 2]])
    o = o - np.array([[0.0], [0.0], [solid.height / 2]])
    one, other = (-half - o) / d, (half - o) / d
    enter, leave = np.fmin(one, other).max(0), np.fmax(one, other).min(0)
    return np.where((enter <= leave) & (enter > 0), enter, np.inf)


def _cone(solid: Solid, o: Columns, d: Columns) -> Float64[np.ndarray, " n"]:
    """Roots of x² + y² = (slope · depth below the apex)², of which the first between foot and apex counts."""
    slope2, under = (solid.radius / solid.height) ** 2, solid.height - o[2]
    a = d[0] ** 2 + d[1] ** 2 - slope2 * d[2] ** 2
    b = o[0] * d[0] + o[1] * d[1] + slope2 * under * d[2]
    c = o[0] ** 2 + o[1] ** 2 - slope2 * under**2
    inside = b * b - a * c
    q = -(b + np.copysign(np.sqrt(np.maximum(inside, 0)), b))  # no cancellation
    t = np.full(np.broadcast(a, c).shape, np.inf)
    for root in (q / a, c / q):
        z = o[2] + root * d[2]
        good = (inside > 0) & (root > 0) & (z >= 0) & (z <= solid.height) & (root < t)
        t = np.where(good, root, t)
    return t


def normals_at(solid: Solid, points: Columns) -> Columns:
    """Outward unit normals at points of the surface."""
    p = solid.local(points)
    if solid.kind == "sphere":
        raw = p - np.array([[0.0], [0.0], [solid.radius]])
    elif solid.kind == "box":
        half = np.array([[solid.radius], [solid.radius], [solid.height / 2]])
        scaled = (p - np.array([[0.0], [0.0], [solid.height / 2]])) / half
        raw = np.where(np.arange(3)[:, None] == np.abs(scaled).argmax(0), np.sign(scaled), 0.0)
    else:
        raw = np.stack([p[0], p[1], (solid.radius / solid.height) ** 2 * (solid.height - p[2])])
    raw = solid.turned(raw, solid.turn)
    return raw / np.maximum(np.linalg.norm(raw, axis=0), 1e-300)
