"""Which weights go first: a score for each, the smallest are pruned. One function a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from monoseme.composition.pruning.layers import Layer, Maps

__all__ = ["WEIGHTS", "WeightMethod", "chosen"]

Score = Callable[[Layer, Maps, np.random.Generator], Tensor]


@dataclass(frozen=True)
class WeightMethod:
    """A score, and among which weights the smallest are taken: of the whole network, a layer, or a neuron's row."""

    score: Score
    among: str


def magnitude(layer: Layer, _maps: Maps, _random: np.random.Generator) -> Float64[Tensor, ...]:
    """|W| (LTH: Frankle & Carbin, arXiv 1803.03635)."""
    return layer.weight.detach().double().abs()


def wanda(layer: Layer, maps: Maps, _random: np.random.Generator) -> Float64[Tensor, ...]:
    """|W_ij| ‖X_j‖₂, compared within each row (Sun et al., arXiv 2306.11695); of a convolution X_j is a channel."""
    norms = maps.inputs.sqrt().to(layer.weight.device)
    shape = [1, len(norms)] + [1] * (layer.weight.ndim - 2)
    return layer.weight.detach().double().abs() * norms.reshape(shape)


def drawn(layer: Layer, _maps: Maps, random: np.random.Generator) -> Float64[Tensor, ...]:
    """Random: the control that every method must beat."""
    return torch.from_numpy(random.random(tuple(layer.weight.shape)))


WEIGHTS: dict[str, WeightMethod] = {
    "magnitude": WeightMethod(magnitude, "network"),
    "magnitude-by-layer": WeightMethod(magnitude, "layer"),
    "wanda": WeightMethod(wanda, "row"),
    "random": WeightMethod(drawn, "layer"),
}


def chosen(
    method: WeightMethod, layers: list[Layer], maps: list[Maps], target: float, random: np.random.Generator
) -> list[Tensor]:
    """New masks with a share `target` of weights masked, masked ones among them; ties go by place."""
    scores = [
        torch.where(layer.mask, method.score(layer, one, random).cpu(), -torch.inf)
        for layer, one in zip(layers, maps, strict=True)
    ]
    if method.among == "network":
        flat = torch.cat([score.flatten() for score in scores])
        kept = _largest(flat, round((1 - target) * len(flat)))
        parts = kept.split([score.numel() for score in scores])
        return [part.reshape(score.shape) for part, score in zip(parts, scores, strict=True)]
    if method.among == "layer":
        return [_largest(s.flatten(), round((1 - target) * s.numel())).reshape(s.shape) for s in scores]
    rows = [s.flatten(1) for s in scores]
    made = [torch.stack([_largest(row, round((1 - target) * len(row))) for row in part]) for part in rows]
    return [part.reshape(score.shape) for part, score in zip(made, scores, strict=True)]


def _largest(scores: Tensor, many: int) -> Tensor:
    """A mask of the `many` largest; what was masked before (-∞) never comes back."""
    order = torch.argsort(scores, descending=True, stable=True)[:many]
    mask = torch.zeros(len(scores), dtype=torch.bool)
    mask[order] = True
    return mask & (scores > -torch.inf)
