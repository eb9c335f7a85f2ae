"""A small ray caster: solids on a plane under a sky, one distant light, Lambert shading, cast shadows.

    radiance = albedo · (AMBIENT + SUN · max(0, ⟨n, l⟩) · [nothing between the point and the light])

Geometry (mask, depth, normals, shadow) is of the rays through the pixels' centres. The picture averages more rays
a pixel, in linear light; the plane fades into the sky with distance, so that it has no hard edge at the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, UInt8

from monoseme.core.errors import refuse
from monoseme.worlds.solids import Solid, meet, normals_at

__all__ = ["AMBIENT", "SUN", "Camera", "Scene", "light_direction", "render"]

SUN = np.array([[0.84], [0.80], [0.72]])  # warm, and with the ambient light at most 1
AMBIENT = np.array([[0.16], [0.19], [0.25]])  # the sky's share, bluish as it is outdoors
PLANE = np.array([[0.60], [0.56], [0.50]])
HORIZON, ZENITH = np.array([[0.80], [0.85], [0.90]]), np.array([[0.30], [0.50], [0.80]])
HAZE = 22.0  # distance over which the plane fades to 1/e
LIFT = 1e-6  # shadow rays start this far off the surface they leave


@dataclass(frozen=True)
class Camera:
    """A pinhole that looks at a point, upright.

    Attributes
    ----------
    eye, target
        Where it stands, and what lies on its axis.
    fov
        Angle of view, degrees, from edge to edge.
    """

    eye: tuple[float, float, float] = (0.0, -6.6, 3.0)
    target: tuple[float, float, float] = (0.0, 0.0, 0.6)
    fov: float = 44.0

    def __post_init__(self) -> None:
        if not self.eye[2] > 0:
            raise refuse("eye", "stand above the plane z = 0", self.eye, "Raise its third coordinate.")
        if (
            math.dist(self.eye[:2], self.target[:2]) < 1e-6 * math.dist(self.eye, self.target)
            or self.eye == self.target
        ):
            raise refuse("target", "not lie straight below or above the eye", self.target, "Move one of them aside.")
        if not 0 < self.fov < 180:
            raise refuse("fov", "lie in (0, 180) degrees", self.fov, "The default is 44.")

    @property
    def axis(self) -> Float64[np.ndarray, " 3"]:
        """Unit vector from eye to target."""
        forward = np.subtract(self.target, self.eye)
        return forward / np.linalg.norm(forward)

    def rays(self, size: int) -> Float64[np.ndarray, "3 n"]:
        """Unit directions through the centres of size × size cells, row by row from the upper left."""
        right = np.cross(self.axis, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        up = np.cross(right, self.axis)
        at = ((np.arange(size) + 0.5) / size * 2 - 1) * math.tan(math.radians(self.fov) / 2)
        across, down = np.tile(at, size), np.repeat(at, size)
        rays = self.axis[:, None] + right[:, None] * across - up[:, None] * down
        return rays / np.linalg.norm(rays, axis=0)


CAMERA = Camera()


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture with everything that is known of it.

    Attributes
    ----------
    image
        (H, W, 3) uint8, sRGB.
    mask
        (H, W) uint8: 0 where the plane or the sky is seen, i + 1 for ``solids[i]``.
    depth
        (H, W) float32, along the camera's axis (not along the ray), in units of the plane; infinite where the sky is.
    normals
        (H, W, 3) float32, unit, outward, in world coordinates (x right, y away, z up); 0 where the sky is.
    shadow
        (H, W) True where a surface faces the light but a solid stands between: cast shadows. Faces turned away from the
        light are dark too; their normals say so.
    azimuth
        Degrees: where the light comes *from*, counter-clockwise seen from above, 0 from the right (+x), 90 from behind
        the scene (+y), 270 from behind the camera.
    elevation
        Degrees of the light above the plane, in (0, 90].
    solids
        What stands on the plane.
    """

    image: UInt8[np.ndarray, "H W 3"] = field(repr=False)
    mask: UInt8[np.ndarray, "H W"] = field(repr=False)
    depth: Float32[np.ndarray, "H W"] = field(repr=False)
    normals: Float32[np.ndarray, "H W 3"] = field(repr=False)
    shadow: Bool[np.ndarray, "H W"] = field(repr=False)
    azimuth: float
    elevation: float
    solids: tuple[Solid, ...]


@dataclass(frozen=True, eq=False)
class _Hits:
    """What each of n rays meets; `what` is −1 for the sky, 0 for the plane, i + 1 for solid i."""

    what: Int64[np.ndarray, " n"]
    t: Float64[np.ndarray, " n"]
    points: Float64[np.ndarray, "3 n"]
    normals: Float64[np.ndarray, "3 n"]
    lit: Bool[np.ndarray, " n"]
    cast: Bool[np.ndarray, " n"]


def light_direction(azimuth: float, elevation: float) -> Float64[np.ndarray, "3 1"]:
    """Unit vector towards the light."""
    a, e = math.radians(azimuth), math.radians(elevation)
    return np.array([[math.cos(e) * math.cos(a)], [math.cos(e) * math.sin(a)], [math.sin(e)]])


def render(
    solids: Sequence[Solid],
    azimuth: float,
    elevation: float,
    size: int = 128,
    camera: Camera = CAMERA,
    supersample: int = 2,
) -> Scene:
    """Cast one scene.

    Parameters
    ----------
    solids
        What stands on the plane; at most 255.
    azimuth, elevation
        The light, degrees, see `Scene`.
    size
        Height and width in pixels.
    camera
        The default looks down on a neighbourhood of the origin, with a strip of sky above.
    supersample
        Rays a pixel and axis for the picture, its square in all; 1 is aliased and fastest. Geometry always has one.

    Raises
    ------
    UserError
        A light not above the plane, no pixels, no rays, or too many solids.
    """
    if not 0 < elevation <= 90:
        raise refuse("elevation", "lie in (0, 90] degrees", elevation, "The light stands above the plane.")
    for name, value in (("size", size), ("supersample", supersample)):
        if value < 1:
            raise refuse(name, "be at least 1", value, "128 pixels and 2 rays an axis are usual.")
    if len(solids) > 255:
        raise refuse("solids", "be at most 255", len(solids), "The mask counts them in one byte.")
    light, rays = light_direction(azimuth, elevation), camera.rays(size)
    hits = _cast(solids, camera, rays, light)
    if supersample > 1:
        fine = camera.rays(size * supersample)
        linear = _radiance(solids, _cast(solids, camera, fine, light), fine, light)
        linear = linear.reshape(3, size, supersample, size, supersample).mean((2, 4))
    else:
        linear = _radiance(solids, hits, rays, light).reshape(3, size, size)
    return Scene(
        image=_srgb(np.ascontiguousarray(linear.transpose(1, 2, 0))),
        mask=np.maximum(hits.what, 0).astype(np.uint8).reshape(size, size),
        depth=(hits.t * (camera.axis @ rays)).astype(np.float32).reshape(size, size),
        normals=np.ascontiguousarray(hits.normals.T.astype(np.float32).reshape(size, size, 3)),
        shadow=hits.cast.reshape(size, size),
        azimuth=float(azimuth),
        elevation=float(elevation),
        solids=tuple(solids),
    )


def _cast(solids: Sequence[Solid], camera: Camera, rays: Float64[np.ndarray, "3 n"], light: np.ndarray) -> _Hits:
    eye = np.array(camera.eye)[:, None]
    with np.errstate(divide="ignore"):
        t = np.where(rays[2] < 0, -eye[2] / rays[2], np.inf)
    what = np.where(np.isfinite(t), 0, -1)
    for i, solid in enumerate(solids, 1):
        reached = meet(solid, eye, rays)
        nearer = reached < t
        t, what = np.where(nearer, reached, t), np.where(nearer, i, what)
    points = eye + np.where(what >= 0, t, 0.0) * rays
    normals = np.zeros_like(points)
    normals[2, what == 0] = 1.0
    for i, solid in enumerate(solids, 1):
        own = what == i
        normals[:, own] = normals_at(solid, points[:, own])
    facing = (what >= 0) & ((normals * light).sum(0) > 0)
    cast = np.zeros(len(t), dtype=bool)
    start = points[:, facing] + LIFT * normals[:, facing]
    towards = np.broadcast_to(light, start.shape)
    blocked = np.zeros(start.shape[1], dtype=bool)
    for solid in solids:
        blocked |= np.isfinite(meet(solid, start, towards))
    cast[facing] = blocked
    return _Hits(what, t, points, normals, facing & ~cast, cast)


def _radiance(solids: Sequence[Solid], hits: _Hits, rays: np.ndarray, light: np.ndarray) -> Float64[np.ndarray, "3 n"]:
    """Linear red, green, blue in [0, 1]."""
    albedo = np.concatenate([PLANE, *[np.array(solid.colour)[:, None] for solid in solids], PLANE], axis=1)
    colour = albedo[:, hits.what] * (AMBIENT + SUN * (np.maximum((hits.normals * light).sum(0), 0) * hits.lit))
    height = np.maximum(rays[2], 0) ** 0.6
    sky = HORIZON + (ZENITH - HORIZON) * height
    far = np.where(hits.what == 0, 1 - np.exp(-((np.where(hits.what == 0, hits.t, 0) / HAZE) ** 2)), 0.0)
    return np.where(hits.what < 0, sky, colour + (HORIZON - colour) * far)


def _srgb(linear: Float64[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 3"]:
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055)
    return np.rint(255 * np.clip(curved, 0, 1)).astype(np.uint8)
