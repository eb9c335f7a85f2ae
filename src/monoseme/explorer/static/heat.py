"""A matrix as a picture: blue below zero, red above, on a scale of square roots, so that small entries are seen."""

from __future__ import annotations

import io

import numpy as np
from jaxtyping import Float64, UInt8

from monoseme.explorer.static.numbers import figure
from monoseme.records.heat import Heat
from monoseme.records.page import Markup, tag

__all__ = ["colours", "heat_figure", "heat_png"]

BELOW, ABOVE = np.array([33, 84, 156.0]), np.array([178, 34, 52.0])
NONE = np.array([246, 246, 244.0])


def colours(values: Float64[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w 3"]:
    """Colours of signed numbers; the largest absolute one is full."""
    top = np.abs(values).max()
    share = np.sqrt(np.abs(values) / top)[..., None] if top > 0 else np.zeros((*values.shape, 1))
    full = np.where(values[..., None] < 0, BELOW, ABOVE)
    return np.round(NONE + share * (full - NONE)).astype(np.uint8)


def heat_png(heat: Heat) -> bytes:
    """The picture, one pixel an entry."""
    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(colours(np.array(heat.values, dtype=np.float64))).save(kept, "PNG", optimize=True)
    return kept.getvalue()


def heat_figure(heat: Heat, number: int) -> Markup:
    """The picture ``data/heat-NUMBER.png`` with its scale in words."""
    values = np.array(heat.values, dtype=np.float64)
    low, high = figure(float(values.min())), figure(float(values.max()))
    scale = f"From {low} to {high} {heat.unit}".strip() + "; blue is below zero, red above, by square roots."
    words = f"{heat.title}: {values.shape[0]} by {values.shape[1]} numbers. {scale}"
    return tag(
        "figure",
        tag("figcaption", tag("h3", heat.title), tag("p", f"{heat.note} {scale}".strip(), class_="lead")),
        tag("img", src=f"data/heat-{number}.png", alt=words, width=values.shape[1], height=values.shape[0]),
        class_="heat",
    )
