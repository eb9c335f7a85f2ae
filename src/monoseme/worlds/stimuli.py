"""Drawn pictures along a circular variable: curves of every orientation, and gratings of every phase.

Edges are soft by a pixel, so that nothing jumps when the variable moves a little.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Float64

from monoseme.core.errors import refuse

__all__ = ["curves", "gratings"]


def curves(
    angles: Float64[np.ndarray, " n"],
    size: int = 64,
    *,
    radius: float = 0.35,
    width: float = 0.05,
    span: float = 2.2,
    contrast: float = 1.0,
) -> Float32[np.ndarray, "n size size 3"]:
    """Bright arcs on mid-grey, bulging towards `angles` (radians, 0 to the right, growing towards the bottom).

    Parameters
    ----------
    radius, width
        Of the arc, in sides of the picture; the arc is centred, so that turning it by 2π brings it back.
    span
        Length of the arc in radians.
    contrast
        Of line and ground: 1 is white on grey.
    """
    _check(size)
    if not 0 < span <= 2 * np.pi:
        raise refuse("span", "lie in 0…2π", span, "2.2 is about a third of a circle.")
    line = (np.arange(size) - (size - 1) / 2) / size
    y, x = np.meshgrid(line, line, indexing="ij")
    found = np.empty((len(angles), size, size, 3), dtype=np.float32)
    for i, angle in enumerate(np.asarray(angles, dtype=np.float64)):
        # the arc's middle lies in the middle of the picture
        u, v = x + radius * np.cos(angle), y + radius * np.sin(angle)
        away = np.abs(np.hypot(u, v) - radius) - width / 2
        turn = np.abs((np.arctan2(v, u) - angle + np.pi) % (2 * np.pi) - np.pi) - span / 2
        ink = np.clip(0.5 - away * size, 0, 1) * np.clip(0.5 - turn * radius * size, 0, 1)
        found[i] = (0.5 + 0.5 * contrast * ink)[..., None]
    return found


def gratings(
    phases: Float64[np.ndarray, " n"],
    size: int = 64,
    *,
    orientation: float = 0.0,
    cycles: float = 8.0,
    contrast: float = 1.0,
) -> Float32[np.ndarray, "n size size 3"]:
    """Sine gratings 0.5 + 0.5 contrast sin(2π cycles u + phase), u along `orientation` (radians) in sides."""
    _check(size)
    if not cycles > 0:
        raise refuse("cycles", "be positive", cycles, "8 a picture is a start.")
    line = (np.arange(size) - (size - 1) / 2) / size
    y, x = np.meshgrid(line, line, indexing="ij")
    u = x * np.cos(orientation) + y * np.sin(orientation)
    wave = np.sin(2 * np.pi * cycles * u[None] + np.asarray(phases, dtype=np.float64)[:, None, None])
    return np.repeat((0.5 + 0.5 * contrast * wave)[..., None], 3, axis=3).astype(np.float32)


def _check(size: int) -> None:
    if size < 8:
        raise refuse("size", "be at least 8 pixels", size, "64 is a start.")
