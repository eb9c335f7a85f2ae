"""`Judge`: pictures in, verdicts out. An answer that is none is "invalid", never "no"."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["Answer", "Judge", "Verdict", "as_png", "check_picture", "eight_bit", "identity", "picture_key"]

Answer = Literal["yes", "no", "unsure", "invalid"]


@dataclass(frozen=True)
class Verdict:
    """What a judge says of one picture.

    Attributes
    ----------
    answer
        Whether the thing is still there. ``"invalid"``: no answer was to be had.
    score
        The number behind it, where there is one; in which direction, the judge's own documentation says.
    note
        Why, in a few words.
    """

    answer: Answer
    score: float | None = None
    note: str = ""


@runtime_checkable
class Judge(Protocol):
    """Says of pictures whether they still show the thing."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Plain JSON that names everything that decides the answers: a cache is read only by an equal one."""
        ...

    @property
    def batch(self) -> int:
        """Pictures judged, and kept, at once; 1 for judges that cost money."""
        ...

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """One verdict a picture, in order."""
        ...


def eight_bit(picture: Float[Tensor, "h w 3"]) -> UInt8[np.ndarray, "h w 3"]:
    """The picture as files and judges know it; what is no number is black."""
    return (picture.nan_to_num(0).clamp(0, 1) * 255).round().byte().cpu().numpy()


def as_png(pixels: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """A picture as a PNG file."""
    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "PNG")
    return kept.getvalue()


def check_picture(picture: Tensor, name: str, side: int = 1) -> None:
    """Refuse what is no picture (h, w, 3) in 0…1, finite, of at least this side."""
    rule, shape = "be RGB in 0…1, floating, (height, width, 3)", tuple(picture.shape)
    if not picture.is_floating_point() or picture.ndim != 3 or shape[2] != 3:
        raise refuse(name, rule, f"{picture.dtype} {shape}", "Render it; divide eight bits by 255.")
    if min(shape[:2]) < side:
        raise refuse(name, f"have sides of at least {side} pixels", shape, "Render it larger.")
    if not bool(((picture >= -1e-6) & (picture <= 1 + 1e-6)).all()):  # false for NaN too
        got = f"{float(picture.min()):.4g} to {float(picture.max()):.4g}"
        raise refuse(name, rule, got, "Divide eight bits by 255.")


def picture_key(pixels: UInt8[np.ndarray, "h w 3"]) -> str:
    """Name of a picture: equal for equal pixels only."""
    shape = "x".join(map(str, pixels.shape)).encode()
    return hashlib.sha256(shape + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def identity(judge: Judge) -> str:
    """Name of a judge with all that decides its answers."""
    return hashlib.sha256(json.dumps(dict(judge.about), sort_keys=True).encode()).hexdigest()
