"""A small vision transformer for classes (Dosovitskiy et al. 2021), patches averaged at the end: no class token.

`models.vit` is another: the pretrained network's, with LayerScale, a class token and positions that resize.
Hooks worth knowing: ``patches``, ``blocks.i`` (the residual stream).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models.families.drawing import lecun

__all__ = ["ViT", "ViTShape"]


@dataclass(frozen=True)
class ViTShape:
    """Blocks and width.

    Attributes
    ----------
    depth, width
        Blocks L, and d, a multiple of `head`.
    channels, side, patch
        Of a picture; of a patch in pixels, a divisor of the side.
    outputs
        Classes.
    head
        Dimensions of an attention head.
    """

    depth: int
    width: int
    channels: int = 3
    side: int = 32
    patch: int = 4
    outputs: int = 10
    head: int = 4

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.channels, self.side, self.patch, self.outputs, self.head) < 1:
            raise refuse("shape", "have positive sizes", self, "Give at least one block of one head.")
        if self.width % self.head:
            raise refuse("width", f"be a multiple of head ({self.head})", self.width, "Round it, or change head.")
        if self.side % self.patch:
            raise refuse("patch", f"divide the side ({self.side})", self.patch, "Choose a divisor.")

    @property
    def tokens(self) -> int:
        """Patches of a picture."""
        return (self.side // self.patch) ** 2

    def count(self, embeddings: bool = True) -> int:
        """Parameters: L(12 d² + 13 d) + 2 d, and with embeddings patches, positions and head."""
        d, pixels = self.width, self.channels * self.patch**2
        ends = pixels * d + d + self.tokens * d + d * self.outputs + self.outputs
        return self.depth * (12 * d * d + 13 * d) + 2 * d + (ends if embeddings else 0)

    def flops(self) -> int:
        """Operations of a forward pass in matrix products, 2 a multiply-add."""
        d, t, pixels = self.width, self.tokens, self.channels * self.patch**2
        return t * (2 * pixels * d + self.depth * (24 * d * d + 4 * t * d)) + 2 * d * self.outputs

    def activations(self) -> int:
        """Numbers kept for the backward pass of a picture, about: 18 d a token and block."""
        return self.tokens * self.width * (18 * self.depth + 2)


class Block(nn.Module):
    """x + attn(norm₁ x), then x + mlp(norm₂ x)."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.norm1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Write to the residual stream twice."""
        batch, tokens, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, -1, self.head).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Vision transformer of a shape."""

    def __init__(self, shape: ViTShape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.patches = nn.Conv2d(shape.channels, shape.width, shape.patch, stride=shape.patch)
        self.position = nn.Parameter(torch.zeros(1, shape.tokens, shape.width))
        self.blocks = nn.ModuleList(Block(shape.width, shape.head) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.outputs)
        lecun(self, seed, "vit")

    def forward(self, pictures: Float[Tensor, "B c H W"]) -> Float[Tensor, "B K"]:
        """Logits of the classes."""
        x = self.patches(pictures).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))
