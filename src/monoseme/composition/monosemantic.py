"""Whether a hidden map shows one part of the picture: overlap and shared information with masks of the known parts.

A map is compared with every part, at the best of several thresholds and with either sign. The best of many is never 0:
so the same is measured with the masks moved about, and what lies above that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.core.stats import mean_of

__all__ = ["PartMatch", "Parts", "best_iou", "match_parts", "mutual_information"]

QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
BINS = 16
Parts = Mapping[str, Bool[Tensor, "h w"]]


@dataclass(frozen=True)
class PartMatch:
    """Of all live maps with the parts of a picture; higher is more monosemantic.

    Attributes
    ----------
    best
        For every live map the part that it overlaps most, and the intersection over union.
    iou, information
        Means over live maps of the best overlap, and of the most information shared with a part, in nats.
    iou_moved, information_moved
        The same with every mask moved to another place: what maps of this kind have by chance.
    """

    best: tuple[tuple[str, float], ...]
    iou: Outcome
    information: Outcome
    iou_moved: float
    information_moved: float


def match_parts(maps: Float[Tensor, "P n"], parts: Parts, *, draws: int = 8, seed: int = 0) -> PartMatch:
    """Match hidden maps (pixels × neurons, pixels in rows of the picture) with masks of parts."""
    values, masks = _checked(maps, parts)
    names = list(parts)
    if not values.shape[1]:
        empty = unknown("best_iou", "1", "no live map"), unknown("information", "nats", "no live map")
        return PartMatch((), *empty, float("nan"), float("nan"))
    overlaps, shared = best_iou(values, masks), mutual_information(values, masks)
    stream, moved_iou, moved_shared = rng(seed, "moved masks"), [], []
    shape = next(iter(parts.values())).shape
    for _ in range(draws):
        shifts = [(int(stream.integers(h)), int(stream.integers(h))) for h in (shape[0],) * len(names)]
        rolled = torch.stack(
            [m.reshape(shape).roll(shift, (0, 1)).flatten() for m, shift in zip(masks, shifts, strict=True)]
        )
        moved_iou.append(float(best_iou(values, rolled).amax(1).mean()))
        moved_shared.append(float(mutual_information(values, rolled).amax(1).mean()))
    top = overlaps.max(1)
    best = tuple((names[int(i)], float(v)) for v, i in zip(top.values, top.indices, strict=True))
    return PartMatch(
        best,
        _mean("best_iou", "1", top.values),
        _mean("information", "nats", shared.amax(1)),
        float(np.mean(moved_iou)),
        float(np.mean(moved_shared)),
    )


def best_iou(maps: Float[Tensor, "P n"], masks: Bool[Tensor, "m P"]) -> Float64[Tensor, "n m"]:
    """Largest |above ∩ mask| ÷ |above ∪ mask| over thresholds at the map's own quantiles, and over both signs."""
    x, y = maps.double(), masks.double()
    found = torch.zeros(x.shape[1], len(y), dtype=torch.float64)
    sizes = y.sum(1)
    for q in QUANTILES:
        cut = torch.quantile(x, q, dim=0)
        for above in (x > cut, x < cut):
            both = above.double().T @ y.T
            union = above.double().sum(0)[:, None] + sizes[None] - both
            found = torch.maximum(found, torch.where(union > 0, both / union.clamp(min=1), 0.0))
    return found


def mutual_information(maps: Float[Tensor, "P n"], masks: Bool[Tensor, "m P"]) -> Float64[Tensor, "n m"]:
    """Information in nats between a map, in 16 bins of equal counts, and a mask; plug-in with Miller and Madow's term.

    The term, (cells - rows - columns + 1) ÷ 2P of the table, is taken off; below 0 becomes 0.
    """
    x, y = maps.double(), masks.double()
    pixels, found = len(x), torch.zeros(x.shape[1], len(y), dtype=torch.float64)
    edges = torch.quantile(x, torch.linspace(0, 1, BINS + 1, dtype=torch.float64)[1:-1], dim=0)
    for n in range(x.shape[1]):
        where = torch.bucketize(x[:, n].contiguous(), edges[:, n].contiguous(), right=True)
        one_hot = torch.nn.functional.one_hot(where, BINS).double()
        inside = one_hot.T @ y.T  # bins by masks
        table = torch.stack([inside, one_hot.sum(0)[:, None] - inside])  # in or out, bins, masks
        joint = table / pixels
        product = joint.sum(0, keepdim=True) * joint.sum(1, keepdim=True)
        plug_in = torch.where(joint > 0, joint * (joint.clamp(min=1e-300) / product.clamp(min=1e-300)).log(), 0.0)
        some = (table > 0).sum((0, 1)), (table.sum(0) > 0).sum(0), (table.sum(1) > 0).sum(0)
        bias = (some[1] + some[2] - some[0] - 1).double() / (2 * pixels)
        found[n] = (plug_in.sum((0, 1)) + bias).clamp(min=0)
    return found


def _checked(maps: Tensor, parts: Parts) -> tuple[Tensor, Tensor]:
    if maps.ndim != 2 or not bool(torch.isfinite(maps).all()):
        raise refuse("maps", "be finite, (pixels, neurons)", tuple(maps.shape), "Take one layer of network.maps(...).")
    if not parts:
        raise refuse("parts", "hold at least one mask", "none", "parts('face', size) has some.")
    for name, mask in parts.items():
        if mask.numel() != len(maps):
            raise refuse(f"parts[{name!r}]", f"have {len(maps)} pixels", mask.numel(), "Render both at one size.")
    spread = maps.double().std(0, correction=0)
    live = maps[:, spread > 1e-9 * spread.max().clamp(min=1e-300)]
    return live, torch.stack([mask.flatten() for mask in parts.values()])


def _mean(name: str, unit: str, values: Tensor) -> Outcome:
    mean = mean_of(values.numpy())
    low, high = (None, None) if mean.n < 2 else (mean.low, mean.high)
    return Outcome(name, mean.value, unit, low, high, better="higher", n=mean.n, n_unit="live maps")
