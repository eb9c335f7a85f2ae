"""A judge that compares pixels with a reference: good for "has it visibly changed", bad for "is it still a skull".

By such a measure a dense network looks the more compositional one, since each of its many weights moves the picture
less. It is here for tests, as the cheap end of a cascade, and as a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Verdict, check_picture, eight_bit, picture_key
from monoseme.core.errors import closest, refuse

__all__ = ["MEASURES", "PixelJudge", "asymmetry", "edges", "rms"]


def rms(pictures: Float[Tensor, "n h w 3"], reference: Float[Tensor, "h w 3"]) -> Float[Tensor, " n"]:
    """Root mean square of the change of pixels, 0…1."""
    return (pictures - reference).square().mean((1, 2, 3)).sqrt()


def edges(pictures: Float[Tensor, "n h w 3"], reference: Float[Tensor, "h w 3"]) -> Float[Tensor, " n"]:
    """The same of differences between neighbours, of grey."""

    def gradients(x: Tensor) -> Tensor:
        grey = x.mean(-1)
        down, right = grey.diff(dim=-2)[..., :, :-1], grey.diff(dim=-1)[..., :-1, :]
        return torch.stack([down, right], -1)

    return (gradients(pictures) - gradients(reference)).square().mean((1, 2, 3)).sqrt()


def asymmetry(pictures: Float[Tensor, "n h w 3"], reference: Float[Tensor, "h w 3"]) -> Float[Tensor, " n"]:
    """How much more the left half differs from the mirrored right one than in the reference; may be below 0."""

    def own(x: Tensor) -> Tensor:
        return (x - x.flip(-2)).abs().mean((-3, -2, -1))

    return own(pictures) - own(reference)


MEASURES = {"rms": rms, "edges": edges, "asymmetry": asymmetry}


class PixelJudge:
    """Yes where a measure is at most a threshold.

    Parameters
    ----------
    reference
        RGB in 0…1.
    threshold
        Of the measure; lower is stricter.
    measure
        ``"rms"``, ``"edges"`` or ``"asymmetry"``.
    """

    batch = 64

    def __init__(self, reference: Float[Tensor, "h w 3"], threshold: float, measure: str = "rms") -> None:
        if measure not in MEASURES:
            raise refuse("measure", f"be one of {', '.join(MEASURES)}", repr(measure), closest(measure, MEASURES))
        check_picture(reference, "reference")
        if not 0 <= threshold < math.inf:
            raise refuse("threshold", "be at least 0, and finite", threshold, "0.1 is a tenth of the range of a pixel.")
        self.reference, self.threshold, self.measure = reference, float(threshold), measure
        self.about: Mapping[str, Any] = {
            "judge": "pixels",
            "measure": measure,
            "threshold": self.threshold,
            "reference": picture_key(eight_bit(reference)),
        }

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """Verdicts; the score is the measure. Where it is no number, the picture is none, and the verdict invalid."""
        if pictures.shape[1:] != self.reference.shape:
            got = tuple(pictures.shape[1:])
            raise refuse("pictures", f"have the reference's shape {tuple(self.reference.shape)}", got, "Render so.")
        found = MEASURES[self.measure](pictures, self.reference.to(pictures)).tolist()
        return [
            Verdict("invalid", None, f"{self.measure} is no number")
            if math.isnan(value)
            else Verdict("yes" if value <= self.threshold else "no", value)
            for value in found
        ]
