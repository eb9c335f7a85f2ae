"""Measures of how a network holds its picture that need no judge (after the FER work, arXiv 2505.11581).

Maps are values of neurons at every pixel, (P, n). None of these numbers proves a network compositional; they separate
networks bred for their pictures from dense ones trained on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.incremental import Move, Rendering
from monoseme.core.errors import refuse

__all__ = ["asymmetry", "effective_dimension", "moved_asymmetry", "redundancy", "roughness"]

DEAD = 1e-9  # of the largest spread: below, a map is constant


def effective_dimension(maps: Float[Tensor, "P n"]) -> float:
    """Participation ratio of the maps' covariance, 1…n: how many directions share the variance."""
    centred = _checked(maps) - maps.double().mean(0)
    values = torch.linalg.svdvals(centred).square()
    total = float(values.sum())
    if total <= 0:
        raise refuse("maps", "vary over the picture", "constant ones", "Is the layer dead?")
    return total**2 / float(values.square().sum())


def redundancy(
    maps: Float[Tensor, "P n"], threshold: float = 0.95, *, centred: bool = False, signed: bool = False
) -> tuple[int, int]:
    """Pairs of maps that are alike, and pairs in all. Constant maps are left out.

    Alike: |cosine| (or cosine, `signed`) of the maps (or of the maps minus their means, `centred`) above `threshold`.
    Centring changes the count a lot: two maps that are mostly bright are alike without it.
    """
    if not 0 <= threshold < 1:
        raise refuse("threshold", "lie in 0..1", threshold, "0.95 is usual.")
    x = _checked(maps)
    moved = x - x.mean(0)
    spread = moved.norm(dim=0)
    x = (moved if centred else x)[:, spread > DEAD * max(float(spread.max()), 1e-300)]
    unit = x / x.norm(dim=0).clamp(min=1e-300)
    cosine = unit.T @ unit
    pairs = cosine[torch.triu(torch.ones_like(cosine, dtype=torch.bool), 1)]
    return int(((pairs if signed else pairs.abs()) > threshold).sum()), len(pairs)


def roughness(maps: Float[Tensor, "n h w"]) -> Float[Tensor, " n"]:
    """Mean |difference| of neighbouring pixels ÷ the standard deviation of each map; NaN where it is constant."""
    x = maps.double()
    if x.ndim != 3 or min(x.shape[1:]) < 2:
        raise refuse("maps", "be (neurons, height, width), at least 2 pixels wide", tuple(maps.shape), "Reshape.")
    steps = 0.5 * (x.diff(dim=1).abs().mean((1, 2)) + x.diff(dim=2).abs().mean((1, 2)))
    spread = x.flatten(1).std(1, correction=0)
    return torch.where(spread > 0, steps / spread, torch.nan)


def _checked(maps: Tensor) -> Tensor:
    if maps.ndim != 2 or min(maps.shape) < 1:
        raise refuse("maps", "be (pixels, neurons)", tuple(maps.shape), "Take one layer of network.maps(...).")
    if not bool(torch.isfinite(maps).all()):
        raise refuse("maps", "be finite", "NaN or infinity", "Look at the network.")
    return maps.double()


def asymmetry(picture: Float[Tensor, "h w 3"]) -> float:
    """Root mean square of the difference to the picture's mirror image, left and right exchanged; 0: symmetric."""
    x = picture.double()
    return float((x - x.flip(1)).square().mean().sqrt())


def moved_asymmetry(rendering: Rendering, moves: Sequence[Move]) -> dict[Move, tuple[float, float]]:
    """Symmetry under perturbation: the change of the picture by each move, and the asymmetry that it adds.

    Root mean squares of pixels. A network that holds a symmetric picture in one set of weights keeps it symmetric when
    one of them moves; compare at equal change only.
    """
    before, own = rendering.picture, asymmetry(rendering.picture)
    return {
        move: (float((picture - before).square().mean().sqrt()), asymmetry(picture) - own)
        for move, picture in rendering.moved(moves)
    }
