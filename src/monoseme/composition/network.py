"""`ImageNetwork`: a layered network from a pixel's coordinates to its colour. What everything in this room works on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.composition.activations import Bank
from monoseme.composition.canvas import INPUTS, coordinates, to_rgb
from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["Entry", "ImageNetwork"]

Entry = tuple[int, int, int]  # layer, row (to), column (from) of a weight
PIECE = 1 << 15  # pixels rendered at once


class ImageNetwork(nn.Module):
    """Layers z_{l+1} = φ(W_l z_l) without biases, with one activation a neuron; the last layer is linear.

    Parameters
    ----------
    weights
        Matrices (to, from); the first from x, y, d, bias, the last to ink, or to hue, saturation and brightness.
    activations
        Names for the neurons of every hidden layer.
    labels
        Names of weights, for people.
    origin
        Of weights that carry a genome's link: which; of those that only pass a value on: ``"copy"``.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        activations: Sequence[Sequence[str]],
        labels: Mapping[Entry, str] | None = None,
        origin: Mapping[Entry, str] | None = None,
    ) -> None:
        super().__init__()
        _check(weights, activations)
        self.weights = nn.ParameterList([nn.Parameter(w.detach().clone()) for w in weights])
        self.banks = tuple(Bank(names) for names in activations)
        for i, w in enumerate(weights):
            self.register_buffer(f"mask{i}", torch.ones_like(w, dtype=torch.bool))
        self.labels, self.origin = dict(labels or {}), dict(origin or {})

    @classmethod
    def dense(
        cls, width: int, depth: int, activations: Sequence[str] | str = "tanh", outputs: int = 3, seed: int = 0
    ) -> ImageNetwork:
        """Draw a dense network: `depth` hidden layers of `width` neurons, all with one activation or each its own.

        Weights are normal with variance 1 ÷ fan-in, cut at two deviations (LeCun et al. 1998; recipe of 2505.11581).
        """
        if width < 1 or depth < 1:
            raise refuse("width and depth", "be at least 1", (width, depth), "22 and 12 are usual for a skull.")
        names = [activations] * width if isinstance(activations, str) else list(activations)
        if len(names) != width:
            raise refuse("activations", f"be one a neuron, {width}", len(names), "Or one name for all.")
        stream, sizes = generator(seed, "image network"), [len(INPUTS), *[width] * depth, outputs]
        weights = []
        for fan_in, fan_out in pairwise(sizes):
            w = torch.empty(fan_out, fan_in)
            # the cut makes the deviation smaller by 0.8796
            nn.init.trunc_normal_(w, 0, 1, -2, 2, generator=stream)
            weights.append(w / (0.87962566 * math.sqrt(fan_in)))
        return cls(weights, [names] * depth)

    @property
    def masks(self) -> tuple[Tensor, ...]:
        """Which weights are there, one mask a matrix."""
        return tuple(self.get_buffer(f"mask{i}") for i in range(len(self.weights)))

    @property
    def matrices(self) -> list[Tensor]:
        """The weights as they are used, masked ones 0."""
        return [w * mask for w, mask in zip(self.weights, self.masks, strict=True)]

    @property
    def outputs(self) -> int:
        """1 (ink) or 3 (hue, saturation, brightness)."""
        return self.weights[-1].shape[0]

    def entries(self) -> list[Entry]:
        """All weights that are not zero."""
        found = [torch.nonzero(w).tolist() for w in self.matrices]
        return [(layer, to, from_) for layer, pairs in enumerate(found) for to, from_ in pairs]

    def forward(self, coords: Float[Tensor, "P 4"]) -> Float[Tensor, "P outputs"]:
        """Raw outputs."""
        z, matrices = coords, self.matrices
        for w, bank in zip(matrices[:-1], self.banks, strict=True):
            z = bank(z @ w.T)
        return z @ matrices[-1].T

    @torch.no_grad()
    def maps(self, coords: Float[Tensor, "P 4"]) -> list[Float[Tensor, "P n"]]:
        """Values of every hidden layer, then of the outputs."""
        found, matrices = [coords], self.matrices
        for w, bank in zip(matrices[:-1], self.banks, strict=True):
            found.append(bank(found[-1] @ w.T))
        return [*found[1:], found[-1] @ matrices[-1].T]

    @torch.no_grad()
    def render(self, size: int) -> Float[Tensor, "size size 3"]:
        """The picture, RGB in 0…1."""
        like = self.weights[0]
        coords = coordinates(size, like.dtype).to(like.device)
        return torch.cat([to_rgb(self(part)) for part in coords.split(PIECE)]).reshape(size, size, 3)


def _check(weights: Sequence[Tensor], activations: Sequence[Sequence[str]]) -> None:
    if len(weights) != len(activations) + 1 or len(weights) < 2:
        got = f"{len(weights)} matrices and {len(activations)} layers of names"
        raise refuse("weights", "be one more than the layers of activations, at least 2", got, "The last is linear.")
    sizes = [len(INPUTS), *map(len, activations)]
    for i, w in enumerate(weights):
        to = sizes[i + 1] if i + 1 < len(sizes) else w.shape[0]
        if w.ndim != 2 or w.shape != (to, sizes[i]):
            raise refuse(
                "weights", f"have the shape {(to, sizes[i])} at layer {i}", tuple(w.shape), "Rows are targets."
            )
        if not bool(torch.isfinite(w).all()):
            raise refuse("weights", "be finite", f"NaN or infinity at layer {i}", "Look at the fit.")
    if weights[-1].shape[0] not in (1, 3):
        raise refuse("weights", "end in 1 or 3 outputs", weights[-1].shape[0], "Ink, or hue, saturation, brightness.")
