"""Film strips: rows of pictures of one size, a column a step, to be compared down the columns."""

from __future__ import annotations

import base64
import binascii
import io
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from monoseme.core.errors import UserError, refuse
from monoseme.core.parse import Entry

__all__ = ["FilmStrip", "film_json", "png", "read_film"]

ROWS, FRAMES = 16, 48  # that one strip can show
SIDE = 1024  # pixels of a frame
HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
DAMAGED = "The file is damaged; save it again."


@dataclass(frozen=True, eq=False)
class FilmStrip:
    """A walk in pictures, and what it is to be compared with.

    Attributes
    ----------
    title
        Heading.
    rows
        (label, frames): frames (T, h, w, 3) uint8, of one shape in all rows. At most 16 rows of 48 frames of 1,024
        pixels a side.
    note
        What the columns are, how the pictures were made and chosen.
    """

    title: str
    rows: tuple[tuple[str, np.ndarray], ...]  # what others give is refused by us, in one line
    note: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.rows) <= ROWS:
            raise refuse("rows", f"be 1 to {ROWS}", len(self.rows), f'See the film strip "{self.title}".')
        first = self.rows[0][1].shape
        for label, frames in self.rows:
            shape = frames.shape
            if frames.dtype != np.uint8 or len(shape) != 4 or shape[3] != 3 or shape != first:
                rule = "have frames (T, h, w, 3) of uint8, of one shape in all rows"
                raise refuse("rows", rule, f"{shape} {frames.dtype} for {label!r}", f'See "{self.title}".')
        _check_size("rows", *first[:3])


def film_json(film: FilmStrip) -> dict[str, Any]:
    """Plain JSON values: the frames of a row are one PNG, one above another, without loss, as base64."""
    count, height, width = film.rows[0][1].shape[:3]
    rows = [
        {"label": label, "png": base64.b64encode(png(frames.reshape(-1, width, 3))).decode()}
        for label, frames in film.rows
    ]
    return {
        "title": film.title,
        "note": film.note,
        "frames": int(count),
        "height": int(height),
        "width": int(width),
        "rows": rows,
    }


def read_film(entry: Entry) -> FilmStrip:
    """Inverse of `film_json`; a row that is no such picture is refused."""
    count, height, width = (entry.get(name, int) for name in ("frames", "height", "width"))
    _check_size(entry.path, count, height, width)
    rows = tuple(
        (row.get("label", str), _pixels(row, count * height, width).reshape(count, height, width, 3))
        for row in entry.items("rows")
    )
    return FilmStrip(entry.get("title", str), rows, entry.get("note", str))


def png(pixels: UInt8[np.ndarray, "_ _ 3"]) -> bytes:
    """The bytes of a PNG file."""
    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "PNG", optimize=True)
    return kept.getvalue()


def _check_size(argument: str, count: int, height: int, width: int) -> None:
    if not (0 < count <= FRAMES and 0 < height <= SIDE and 0 < width <= SIDE):
        rule = f"have 1 to {FRAMES} frames of at most {SIDE} × {SIDE} pixels"
        raise refuse(argument, rule, f"{count} of {height} × {width}", "Choose some, or make them smaller.")


def _pixels(row: Entry, height: int, width: int) -> UInt8[np.ndarray, "_ _ 3"]:
    """Decode a row. Its size is read before its pixels, so that no small file can unfold into a large picture."""
    from PIL import Image

    try:
        raw = base64.b64decode(row.get("png", str), validate=True)
    except (binascii.Error, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise refuse(row.path, "hold a PNG in base64", error, DAMAGED) from None
    if raw[:16] != HEAD or raw[16:24] != struct.pack(">II", width, height):
        raise refuse(row.path, f"hold a PNG of {height} × {width} pixels", "another thing", DAMAGED)
    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            mode, pixels = picture.mode, np.array(picture)
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for parts that are missing or changed
        raise refuse(row.path, "hold a sound PNG", error, DAMAGED) from None
    if mode != "RGB":
        raise refuse(row.path, "hold an RGB picture", mode, DAMAGED)
    return pixels
