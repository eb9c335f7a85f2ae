"""A residual convolutional network (He et al. 2016), without batch statistics: samples never mix.

Hooks worth knowing: ``stem``, ``blocks.i`` (the residual stream, at the picture's own size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models.families.drawing import lecun

__all__ = ["CNN", "CNNShape"]


@dataclass(frozen=True)
class CNNShape:
    """Residual blocks and channels.

    Attributes
    ----------
    depth, width
        Blocks of two convolutions each, and channels.
    channels, side
        Of a picture.
    outputs
        Classes.
    """

    depth: int
    width: int
    channels: int = 3
    side: int = 32
    outputs: int = 10

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.channels, self.side, self.outputs) < 1:
            raise refuse("shape", "have positive sizes", self, "Give at least one block of one channel.")

    def count(self, embeddings: bool = True) -> int:
        """Parameters: L(18 c² + 6 c) + 2 c in blocks and last norm, and with embeddings the stem and the head."""
        c = self.width
        ends = 9 * self.channels * c + c + c * self.outputs + self.outputs
        return self.depth * (18 * c * c + 6 * c) + 2 * c + (ends if embeddings else 0)

    def flops(self) -> int:
        """Operations of a forward pass in convolutions and the head, 2 a multiply-add."""
        c, pixels = self.width, self.side * self.side
        return 2 * (pixels * (9 * self.channels * c + self.depth * 18 * c * c) + c * self.outputs)

    def activations(self) -> int:
        """Numbers kept for the backward pass of a picture, about: 7 maps a block."""
        return self.side * self.side * self.width * (7 * self.depth + 2)


class Block(nn.Module):
    """x + f(x)/√2, f two normalised, rectified convolutions of 3 × 3."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(norm(width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1)),
            *(norm(width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1)),
        )

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B c H W"]:
        """Write to the residual stream."""
        return x + self.body(x) / math.sqrt(2)


def norm(width: int) -> nn.GroupNorm:
    """Group norm of at most eight groups, of equal size."""
    return nn.GroupNorm(math.gcd(width, 8), width)


class CNN(nn.Module):
    """Residual network of a shape; the mean over pixels is read by a linear head."""

    def __init__(self, shape: CNNShape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Conv2d(shape.channels, shape.width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(shape.width) for _ in range(shape.depth))
        self.norm = norm(shape.width)
        self.head = nn.Linear(shape.width, shape.outputs)
        lecun(self, seed, "cnn")

    def forward(self, pictures: Float[Tensor, "B c H W"]) -> Float[Tensor, "B K"]:
        """Logits of the classes."""
        x = self.stem(pictures)
        for block in self.blocks:
            x = block(x)
        return self.head(nn.functional.gelu(self.norm(x)).mean((2, 3)))
