"""A multi-layer gated recurrent network (Cho et al. 2014) with a linear reading at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["GRU", "GRUShape"]


@dataclass(frozen=True)
class GRUShape:
    """Layers and hidden units.

    Attributes
    ----------
    depth, width
        Layers L, and hidden units h.
    inputs, outputs
        Numbers a step, in and out.
    steps
        Of a sequence, for operations and memory; the network takes any length.
    """

    depth: int
    width: int
    inputs: int = 1
    outputs: int = 1
    steps: int = 80

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.inputs, self.outputs, self.steps) < 1:
            raise refuse("shape", "have positive sizes", self, "Give at least one layer of one unit.")

    def count(self, embeddings: bool = True) -> int:
        """Parameters: 3 L(h² + 2 h) + 3 (L - 1) h², and with embeddings 3 h inputs and the head."""
        h = self.width
        ends = 3 * h * self.inputs + h * self.outputs + self.outputs
        return 3 * (self.depth * (h * h + 2 * h) + (self.depth - 1) * h * h) + (ends if embeddings else 0)

    def flops(self) -> int:
        """Operations of a forward pass of a sequence in matrix products, 2 a multiply-add."""
        h = self.width
        step = 3 * (h * self.inputs + (2 * self.depth - 1) * h * h) + h * self.outputs
        return 2 * self.steps * step

    def activations(self) -> int:
        """Numbers kept for the backward pass of a sequence, about: 5 h a step and layer."""
        return self.steps * 5 * self.depth * self.width


class GRU(nn.Module):
    """Recurrent network of a shape; weights uniform within 1/√h, as is usual."""

    def __init__(self, shape: GRUShape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.GRU(shape.inputs, shape.width, shape.depth, batch_first=True)
        self.head = nn.Linear(shape.width, shape.outputs)
        stream, reach = generator(seed, "gru"), 1 / math.sqrt(shape.width)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-reach, reach, generator=stream)

    def forward(self, sequence: Float[Tensor, "B T n"]) -> Float[Tensor, "B T K"]:
        """Outputs at every step."""
        return self.head(self.layers(sequence)[0])
