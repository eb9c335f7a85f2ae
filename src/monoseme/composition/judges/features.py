"""An offline judge: cosine of deep features to the unmoved picture's, with a threshold calibrated on the target itself.

A stand-in for a model that sees, and to be called so: it knows textures and shapes of photographs, not what a skull is.
The threshold is put where variants of the picture that a person would still name (mirrored, shifted, brighter,
blurred) part best from such that nobody would (patches scrambled, noise, other pictures); how badly they part on
variants that it was not put by is the calibration error, and belongs beside every score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Verdict, check_picture, eight_bit, picture_key
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import generator
from monoseme.core.stats import wilson
from monoseme.models import HookedModel, open_model

__all__ = ["FeatureJudge", "benign", "destroyed"]

SIDES = (128, 224)  # at which features are taken: the picture's own side, as a multiple of 32, between these
SMALLEST = 8  # side of a reference: its patches are scrambled
VARIANTS = 24  # of each kind, half of them to calibrate by


class FeatureJudge:
    """Yes where the features' cosine to the reference's is at least the calibrated threshold.

    Parameters
    ----------
    reference
        The unmoved picture, RGB in 0…1, square.
    others
        Pictures of other things, of the same size: among the destroyed variants.
    model, at
        A vision model with one vector a picture at a hook; EfficientNet-Lite0 by default, whose weights are a package.
    seed
        Of the variants.
    side
        At which features are taken. By default near the picture's own: enlarged much, pictures lose the edges that tell
        them apart (96 pixels at 224: an eighth of the variants misjudged, at 128 none; and seven times the time).
    """

    batch = 32

    def __init__(
        self,
        reference: Float[Tensor, "h w 3"],
        others: Sequence[Tensor] = (),
        *,
        model: str | HookedModel = "efficientnet-lite0",
        at: str = "pool",
        seed: int = 0,
        side: int | None = None,
    ) -> None:
        check_picture(reference, "reference", SMALLEST)
        if reference.shape[0] != reference.shape[1]:
            raise refuse("reference", "be a square picture (size, size, 3)", tuple(reference.shape), "Crop it.")
        for other in others:
            if other.shape != reference.shape:
                rule = f"have the reference's shape {tuple(reference.shape)}"
                raise refuse("others", rule, tuple(other.shape), "Render them alike.")
        self.model, self.at = open_model(model), at
        self.shape = tuple(reference.shape)
        if side is not None and side < 32:
            raise refuse("side", "be at least 32", side, "Leave it out for one that suits the pictures.")
        self.side = side or min(max(32 * math.ceil(len(reference) / 32), SIDES[0]), SIDES[1])
        self.own = self._features(reference[None].float())[0]
        kept, gone = benign(reference.float(), seed), destroyed(reference.float(), list(others), seed)
        good, bad = self.cosines(kept), self.cosines(gone)
        # kinds of variants repeat, so halves are drawn
        good, bad = (x[torch.randperm(len(x), generator=generator(seed, "halves"))] for x in (good, bad))
        half = VARIANTS // 2
        self.threshold = _threshold(good[:half], bad[:half])
        self.calibration = _error(good[half:], bad[half:], self.threshold)
        self.about: Mapping[str, Any] = {
            "judge": "features (stand-in)",
            "model": self.model.name,
            "revision": self.model.revision,
            "at": at,
            "side": self.side,
            "reference": picture_key(eight_bit(reference)),
            "others": [picture_key(eight_bit(other)) for other in others],
            "threshold": round(self.threshold, 9),
        }

    def cosines(self, pictures: Float[Tensor, "n h w 3"]) -> Float[Tensor, " n"]:
        """Cosine of each picture's features to the reference's."""
        return F.cosine_similarity(self._features(pictures), self.own[None], dim=1)

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """Verdicts; the score is the cosine, higher is more alike. Invalid where it is no number."""
        if tuple(pictures.shape[1:]) != self.shape:
            got = tuple(pictures.shape[1:])
            raise refuse("pictures", f"have the reference's shape {self.shape}", got, "Render them so.")
        found = self.cosines(pictures.float()).tolist()
        return [
            Verdict("invalid", None, "the cosine is no number")
            if math.isnan(value)
            else Verdict("yes" if value >= self.threshold else "no", value)
            for value in found
        ]

    @torch.no_grad()
    def _features(self, pictures: Tensor) -> Tensor:
        x = F.interpolate(pictures.movedim(-1, 1), (self.side, self.side), mode="bicubic", align_corners=False)
        x = ((255 * x.clamp(0, 1)).round() - 127) / 128
        return torch.cat([self.model.run(part, at=self.at).flatten(1) for part in x.split(self.batch)]).double()


def benign(picture: Float[Tensor, "h w 3"], seed: int = 0) -> Float[Tensor, "n h w 3"]:
    """Variants that a person would call the same thing: mirrored, shifted and scaled a little, brighter, softer."""
    stream, found = generator(seed, "benign"), []
    for i in range(VARIANTS):
        draw = lambda low, high: low + (high - low) * float(torch.rand((), generator=stream))  # noqa: E731
        x = picture.flip(1) if i % 3 == 0 else picture
        x = _moved(x, draw(-0.08, 0.08), draw(-0.08, 0.08), draw(0.92, 1.08))
        x = (x * draw(0.8, 1.2) + draw(-0.05, 0.05)).clamp(0, 1)
        if i % 2:
            x = x + draw(0.0, 0.03) * torch.randn(x.shape, generator=stream)
        else:
            x = F.avg_pool2d(F.pad(x.movedim(-1, 0)[None], (1, 1, 1, 1), mode="replicate"), 3, 1)[0].movedim(0, -1)
        found.append(x.clamp(0, 1))
    return torch.stack(found)


def destroyed(
    picture: Float[Tensor, "h w 3"], others: Sequence[Tensor] = (), seed: int = 0
) -> Float[Tensor, "n h w 3"]:
    """Variants that nobody would: patches in another order, noise, a single colour, bands gone, other pictures."""
    stream, found = generator(seed, "destroyed"), [other.float() for other in others]
    size = len(picture)
    while len(found) < VARIANTS:
        kind = len(found) % 4
        if kind == 0:
            found.append(_scrambled(picture, 4, stream))
        elif kind == 1:
            found.append(torch.rand(picture.shape, generator=stream))
        elif kind == 2:
            found.append(torch.rand(3, generator=stream).expand(picture.shape).clone())
        else:
            x, start = picture.clone(), int(torch.randint(0, size // 2, (), generator=stream))
            x[start : start + size // 2] = torch.rand(3, generator=stream)
            found.append(_scrambled(x, 8, stream))
    return torch.stack(found)


def _moved(x: Tensor, right: float, down: float, scale: float) -> Tensor:
    theta = torch.tensor([[[1 / scale, 0, -2 * right], [0, 1 / scale, -2 * down]]])
    grid = F.affine_grid(theta, [1, 3, *x.shape[:2]], align_corners=False)
    moved = F.grid_sample(x.movedim(-1, 0)[None], grid, padding_mode="border", align_corners=False)
    return moved[0].movedim(0, -1)


def _scrambled(x: Tensor, tiles: int, stream: torch.Generator) -> Tensor:
    side = max(len(x) // tiles, 1)
    whole = x[: side * tiles, : side * tiles].reshape(tiles, side, tiles, side, 3).movedim(2, 1)
    parts = whole.reshape(tiles * tiles, side, side, 3)[torch.randperm(tiles * tiles, generator=stream)]
    out = x.clone()
    back = parts.reshape(tiles, tiles, side, side, 3).movedim(1, 2).reshape(side * tiles, side * tiles, 3)
    out[: side * tiles, : side * tiles] = back
    return out


def _threshold(good: Tensor, bad: Tensor) -> float:
    """Where the mean of both errors is least; of several such places the middle one."""
    values = torch.cat([good, bad]).sort().values
    cuts = [float(values[0]) - 1e-6, *((values[1:] + values[:-1]) / 2).tolist(), float(values[-1]) + 1e-6]
    errors = [float((good < cut).double().mean() + (bad >= cut).double().mean()) for cut in cuts]
    least = min(errors)
    best = [cut for cut, error in zip(cuts, errors, strict=True) if error == least]
    return best[len(best) // 2]


def _error(good: Tensor, bad: Tensor, threshold: float) -> Outcome:
    """Share of variants that the threshold was not put by, and that it gets wrong; lower is better."""
    wrong, n = int((good < threshold).sum() + (bad >= threshold).sum()), len(good) + len(bad)
    low, high = wilson(wrong, n)
    note = "variants that the threshold was not put by"
    return Outcome(
        "calibration_error", wrong / n, "share", low, high, better="lower", n=n, n_unit="variants", note=note
    )
