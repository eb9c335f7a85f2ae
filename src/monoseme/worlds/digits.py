"""Digits drawn with a known rotation, thickness and hue; and the three read back from pixels by moments alone.

Strokes are our own polylines. What a reader says of a picture comes from sums over pixels, not from a network, so that
a network that makes digits can be judged by it. Rotation is read from the principal axis, relative to the same digit's
upright one; that is why digits whose ink is as wide as high are left out.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng

__all__ = ["DIGITS", "DigitSample", "digits", "draw_digits", "read_digits"]

# x to the right and y downwards, within -0.7…0.7
STROKES: dict[int, tuple[tuple[tuple[float, float], ...], ...]] = {
    1: (((-0.15, -0.45), (0.05, -0.65), (0.05, 0.65)),),
    2: (((-0.3, -0.4), (-0.1, -0.62), (0.2, -0.55), (0.28, -0.3), (-0.32, 0.62), (0.34, 0.62)),),
    4: (((0.12, -0.65), (-0.36, 0.2), (0.38, 0.2)), ((0.16, -0.1), (0.16, 0.66))),
    5: (
        ((0.3, -0.62), (-0.26, -0.62), (-0.28, -0.08), (0.1, -0.14), (0.3, 0.15), (0.22, 0.5), (-0.06, 0.64)),
        ((-0.06, 0.64), (-0.3, 0.5)),
    ),
    7: (((-0.34, -0.62), (0.34, -0.62), (-0.08, 0.66)),),
}
DIGITS = tuple(STROKES)
ROTATIONS, THICKNESSES = (-0.6, 0.6), (0.12, 0.34)
SIDE = 28


@dataclass(frozen=True, eq=False)
class DigitSample:
    """Pictures with what made them.

    Attributes
    ----------
    x
        (n, side, side, 3) RGB in 0…1, coloured ink on black.
    digit, rotation, thickness, hue
        Which digit; radians, clockwise positive; stroke width in half sides of the picture; 0…1.
    """

    x: Float32[np.ndarray, "n side side 3"]
    digit: Int64[np.ndarray, " n"]
    rotation: Float64[np.ndarray, " n"]
    thickness: Float64[np.ndarray, " n"]
    hue: Float64[np.ndarray, " n"]


def digits(n: int, side: int = SIDE, seed: int = 0) -> DigitSample:
    """Draw n digits; every attribute is uniform in its range and independent of the others."""
    if n < 1:
        raise refuse("n", "be at least 1", n, "1,000 is a start.")
    stream = rng(seed, "digits")
    digit = np.array(DIGITS)[stream.integers(len(DIGITS), size=n)].astype(np.int64)
    rotation, thickness = stream.uniform(*ROTATIONS, n), stream.uniform(*THICKNESSES, n)
    hue = stream.uniform(0, 1, n)
    return DigitSample(draw_digits(digit, rotation, thickness, hue, side), digit, rotation, thickness, hue)


def draw_digits(
    digit: Int64[np.ndarray, " n"],
    rotation: Float64[np.ndarray, " n"],
    thickness: Float64[np.ndarray, " n"],
    hue: Float64[np.ndarray, " n"],
    side: int = SIDE,
) -> Float32[np.ndarray, "n side side 3"]:
    """Draw them; edges are soft by a pixel."""
    if side < 8:
        raise refuse("side", "be at least 8 pixels", side, "28 is usual.")
    unknown = [int(d) for d in np.unique(digit) if int(d) not in STROKES]
    if unknown:
        raise refuse("digit", f"be one of {', '.join(map(str, DIGITS))}", unknown[0], "The others look alike turned.")
    inks = [_ink(int(d), float(r), float(t), side) for d, r, t in zip(digit, rotation, thickness, strict=True)]
    return (np.stack(inks)[..., None] * _colour(np.asarray(hue))[:, None, None]).astype(np.float32)


def read_digits(
    pictures: Float32[np.ndarray, "n side side 3"], digit: Int64[np.ndarray, " m"]
) -> dict[str, Float64[np.ndarray, " n"]]:
    """Read ``rotation``, ``thickness`` and ``hue`` from pixels, given which digit; NaN where there is no ink.

    Hue: of the summed colour. Rotation: of the ink's principal axis, less the upright digit's. Thickness: that of the
    upright digit with as much ink.
    """
    x = np.asarray(pictures, dtype=np.float64)
    if x.ndim != 4 or x.shape[3] != 3 or len(x) != len(digit) or x.shape[1] != x.shape[2]:
        raise refuse("pictures", "be (n, side, side, 3), one a digit", (x.shape, len(digit)), "RGB in 0…1.")
    ink, side = x.max(3), x.shape[1]
    total = ink.sum((1, 2))
    found = {name: np.full(len(x), np.nan) for name in ("rotation", "thickness", "hue")}
    some = np.flatnonzero(total > 1e-3 * side**2)
    found["hue"][some] = [_hue(one) for one in x[some].sum((1, 2))]
    for i in some:
        masses, axes = _upright(int(digit[i]), side)
        found["thickness"][i] = np.interp(total[i], masses, GRID)
        turned = _axis(ink[i]) - np.interp(found["thickness"][i], GRID, axes)
        found["rotation"][i] = (turned + np.pi / 2) % np.pi - np.pi / 2
    return found


GRID = np.linspace(0.04, 0.6, 29)  # thicknesses at which upright digits are drawn for comparison


@functools.cache
def _upright(digit: int, side: int) -> tuple[Float64[np.ndarray, " t"], Float64[np.ndarray, " t"]]:
    """Ink and axis of the upright digit at every thickness of the grid."""
    inks = [_ink(digit, 0.0, float(t), side) for t in GRID]
    return np.array([ink.sum() for ink in inks]), np.array([_axis(ink) for ink in inks])


def _ink(digit: int, rotation: float, thickness: float, side: int) -> Float64[np.ndarray, "side side"]:
    line = (np.arange(side) - (side - 1) / 2) / (side / 2)
    y, x = np.meshgrid(line, line, indexing="ij")
    c, s = np.cos(rotation), np.sin(rotation)
    u, v = c * x + s * y, -s * x + c * y  # the picture turned back
    away = np.full(x.shape, np.inf)
    for stroke in STROKES[digit]:
        for (ax, ay), (bx, by) in itertools.pairwise(stroke):
            dx, dy = bx - ax, by - ay
            t = np.clip(((u - ax) * dx + (v - ay) * dy) / (dx * dx + dy * dy), 0, 1)
            away = np.minimum(away, np.hypot(u - ax - t * dx, v - ay - t * dy))
    return np.clip(0.5 - (away - thickness / 2) * side / 2, 0, 1)


def _axis(ink: Float64[np.ndarray, "h w"]) -> float:
    """Angle of the principal axis of the ink, modulo π."""
    y, x = np.mgrid[0 : ink.shape[0], 0 : ink.shape[1]].astype(np.float64)
    w = ink / ink.sum()
    x, y = x - (w * x).sum(), y - (w * y).sum()
    return 0.5 * float(np.arctan2(2 * (w * x * y).sum(), (w * x * x).sum() - (w * y * y).sum()))


def _colour(hue: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, "n 3"]:
    """RGB of full saturation and value."""
    k = (np.array([5.0, 3.0, 1.0]) + 6 * (hue[:, None] % 1)) % 6
    return 1 - np.clip(np.minimum(k, 4 - k), 0, 1)


def _hue(rgb: Float64[np.ndarray, " 3"]) -> float:
    low, high = rgb.min(), rgb.max()
    if high - low <= 1e-9 * high:
        return float("nan")
    r, g, b = (rgb - low) / (high - low)
    sixths = {0: (g - b) % 6, 1: (b - r) + 2, 2: (r - g) + 4}[int(rgb.argmax())]
    return float(sixths / 6 % 1)
