"""A multi-layer perceptron of equal hidden layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models.families.drawing import lecun

__all__ = ["MLP", "MLPShape"]


@dataclass(frozen=True)
class MLPShape:
    """Hidden layers and units.

    Attributes
    ----------
    depth, width
        Hidden layers L, and units w of each.
    inputs, outputs
        Numbers in and out.
    """

    depth: int
    width: int
    inputs: int = 64
    outputs: int = 1

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.inputs, self.outputs) < 1:
            raise refuse("shape", "have positive sizes", self, "Give at least one layer of one unit.")

    def count(self, embeddings: bool = True) -> int:
        """Parameters: (L - 1)(w² + w), and with embeddings the first and the last layer."""
        w = self.width
        ends = self.inputs * w + w + w * self.outputs + self.outputs
        return (self.depth - 1) * (w * w + w) + (ends if embeddings else 0)

    def flops(self) -> int:
        """Operations of a forward pass in matrix products, 2 a multiply-add."""
        w = self.width
        return 2 * (self.inputs * w + (self.depth - 1) * w * w + w * self.outputs)

    def activations(self) -> int:
        """Numbers kept for the backward pass of a row: two a unit."""
        return 2 * self.depth * self.width


class MLP(nn.Module):
    """Perceptron of a shape, with GELU."""

    def __init__(self, shape: MLPShape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        sizes = [shape.inputs, *[shape.width] * shape.depth]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.head = nn.Linear(shape.width, shape.outputs)
        lecun(self, seed, "mlp")

    def forward(self, x: Float[Tensor, "B n"]) -> Float[Tensor, "B K"]:
        """Outputs of rows."""
        for layer in self.layers:
            x = nn.functional.gelu(layer(x))
        return self.head(x)
