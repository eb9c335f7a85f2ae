"""How far a picture can be compressed, as a measure of its structure: size of a PNG ÷ size of its pixels.

Such a ratio depends on encoder, level, filter, colour mode and size: at another level two pictures can change places.
So the encoder is our own, over the standard library's zlib, with every choice a setting, and the version that ran said.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from monoseme.composition.judges.protocol import eight_bit
from monoseme.core.errors import refuse

__all__ = ["FILTERS", "PngSettings", "encode", "png_ratio"]

FILTERS = ("none", "sub", "up", "average", "paeth")


@dataclass(frozen=True)
class PngSettings:
    """Choices.

    Attributes
    ----------
    level
        Of zlib, 0…9.
    filter
        One of `FILTERS` for all rows, or ``"adaptive"``: for each row the one with the least sum of absolute values, as
        the PNG specification advises.
    grey
        One channel (the mean of the three) instead of three.
    """

    level: int = 9
    filter: str = "adaptive"
    grey: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 9:
            raise refuse("level", "lie in 0..9", self.level, "9 is the smallest file.")
        if self.filter not in (*FILTERS, "adaptive"):
            raise refuse("filter", f"be one of {', '.join(FILTERS)} or adaptive", repr(self.filter), "See PNG.")

    @property
    def about(self) -> dict[str, str | int | bool]:
        """The settings, and the zlib that runs."""
        return {"level": self.level, "filter": self.filter, "grey": self.grey, "zlib": zlib.ZLIB_RUNTIME_VERSION}


def png_ratio(picture: Float[Tensor, "h w 3"], settings: PngSettings | None = None) -> float:
    """Bytes of the file ÷ bytes of the pixels; lower is more structure. Compare pictures of one size only."""
    settings = settings or PngSettings()
    pixels = eight_bit(picture)
    return len(encode(pixels, settings)) / (pixels.shape[0] * pixels.shape[1] * (1 if settings.grey else 3))


def encode(pixels: UInt8[np.ndarray, "h w 3"], settings: PngSettings | None = None) -> bytes:
    """A PNG file."""
    settings = settings or PngSettings()
    if pixels.ndim != 3 or pixels.shape[2] != 3 or min(pixels.shape) < 1:
        raise refuse("pixels", "be (height, width, 3)", pixels.shape, "Render a picture.")
    if settings.grey:
        pixels = np.round(pixels.mean(2, keepdims=True)).astype(np.uint8)
    height, width, channels = pixels.shape
    lines = _filtered(pixels.reshape(height, width * channels), channels, settings.filter)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, settings.level)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _filtered(rows: UInt8[np.ndarray, "h n"], step: int, how: str) -> bytes:
    """Rows with their filter in front. Filters are differences modulo 256 to the left, above, and above left."""
    x = rows.astype(np.int16)
    left = np.pad(x, ((0, 0), (step, 0)))[:, : x.shape[1]]
    above = np.pad(x, ((1, 0), (0, 0)))[:-1]
    corner = np.pad(left, ((1, 0), (0, 0)))[:-1]
    guess = left + above - corner
    to_left, to_above, to_corner = (np.abs(guess - other) for other in (left, above, corner))
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner), left, np.where(to_above <= to_corner, above, corner)
    )
    made = [x - other for other in (np.zeros_like(x), left, above, (left + above) // 2, paeth)]
    made = np.stack([part.astype(np.uint8) for part in made])
    if how == "adaptive":
        signed = made.astype(np.int8).astype(np.int32)
        chosen = np.abs(signed).sum(2).argmin(0)
    else:
        chosen = np.full(len(x), FILTERS.index(how))
    lines = made[chosen, np.arange(len(x))]
    return np.concatenate([chosen.astype(np.uint8)[:, None], lines], 1).tobytes()
