"""What every model's `preprocess` asks of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from monoseme.core.errors import refuse

__all__ = ["as_pixels", "squeezed"]


def as_pixels(picture: Any) -> np.ndarray:
    """(H, W, 3) uint8 array of a picture (array or PIL)."""
    pixels = np.asarray(picture)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise refuse("picture", "be (H, W, 3) uint8", f"{pixels.shape} {pixels.dtype}", "Convert it to RGB first.")
    return pixels


def squeezed(picture: Any, side: int) -> np.ndarray:
    """(side, side, 3) uint8: the whole picture, squeezed (bicubic) where it has another size."""
    from PIL import Image

    pixels = as_pixels(picture)
    if pixels.shape[:2] != (side, side):
        pixels = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC))
    return pixels
