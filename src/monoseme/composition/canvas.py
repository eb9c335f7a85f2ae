"""Where a picture's pixels are, and what a network's outputs mean as colour.

Both are Picbreeder's as arXiv 2505.11581 reads it: x and y from -1 to 1 with both ends, row 0 at y = -1,
d = 1.4 √(x² + y²), bias 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["INPUTS", "coordinates", "hsv_to_rgb", "to_rgb"]

INPUTS = ("x", "y", "d", "bias")


def coordinates(size: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "P 4"]:
    """x, y, d and bias of every pixel of a square picture, row after row."""
    if size < 2:
        raise refuse("size", "be at least 2 pixels", size, "256 is usual.")
    line = torch.linspace(-1, 1, size, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    d = 1.4 * (x.square() + y.square()).sqrt()
    return torch.stack([x, y, d, torch.ones_like(x)], -1).reshape(-1, 4).to(dtype)


def to_rgb(raw: Float[Tensor, "... n"]) -> Float[Tensor, "... 3"]:
    """Colours in 0…1 of raw outputs: hue, saturation, brightness; or ink alone, which is a grey of |ink|.

    h = (hue + 1) mod 1, s = saturation cut to 0…1, v = |brightness| cut to 1.
    """
    if raw.shape[-1] == 1:
        return raw.abs().clamp(0, 1).expand(*raw.shape[:-1], 3)
    if raw.shape[-1] != 3:
        raise refuse("raw", "have 1 or 3 outputs", raw.shape[-1], "Ink, or hue, saturation and brightness.")
    hue, saturation, brightness = raw.unbind(-1)
    return hsv_to_rgb(hue - hue.floor(), saturation.clamp(0, 1), brightness.abs().clamp(0, 1))


def hsv_to_rgb(h: Tensor, s: Tensor, v: Tensor) -> Float[Tensor, "... 3"]:
    """Standard conversion: channel n of (5, 3, 1) is v - v s max(0, min(k, 4 - k, 1)), k = (n + 6 h) mod 6."""
    parts, sixths, dip = [], 6 * h, v * s
    for n in (5, 3, 1):
        # k = n + 6 h, less 6 from 6 on; min(k, 4 - k) is 2 - |k - 2|, and from 6 on 2 - |k - 8|
        k = sixths + n
        bend = torch.maximum(2 - (k - 2).abs(), 2 - (k - 8).abs())
        parts.append(v - dip * bend.clamp(0, 1))
    return torch.stack(parts, -1)
