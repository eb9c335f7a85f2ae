"""A plain vision transformer with LayerScale (Dosovitskiy et al. 2021; Oquab et al. 2024), read top to bottom.

Hooks worth knowing: ``blocks.i`` (residual stream after block i), ``blocks.i.attn`` and ``blocks.i.mlp`` (what each
half writes, before LayerScale), ``norm``. Token 0 is CLS, then patches in row order.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["ViT", "init_random"]


class Attention(nn.Module):
    """Multi-head self-attention, all heads at once; query, key and value come from one product."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Let every token read every other."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """x + scale₁·attn(norm₁ x), then x + scale₂·mlp(norm₂ x)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.scale1 = nn.Parameter(torch.ones(width))
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale2 = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Write to the residual stream twice."""
        x = x + self.scale1 * self.attn(self.norm1(x))
        return x + self.scale2 * self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Vision transformer on pictures of any size that is a multiple of the patch.

    Parameters
    ----------
    width, depth, heads
        d, number of blocks, attention heads.
    patch
        Side of a patch in pixels.
    table
        Side of the learned position table, in patches; other sizes are interpolated from it.
    """

    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6, patch: int = 14, table: int = 37) -> None:
        super().__init__()
        self.patch, self.table = patch, table
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 1 + table * table, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, pictures: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B T d"]:
        """Return normalised tokens: CLS, then H/patch · W/patch patches."""
        height, width = pictures.shape[-2:]
        if height % self.patch or width % self.patch:
            raise refuse("size", f"be a multiple of {self.patch} pixels", f"{height} x {width}", "Crop or resize.")
        patches = self.embed(pictures).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(patches), -1, -1), patches], 1)
        x = x + self._positions(height // self.patch, width // self.patch)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _positions(self, rows: int, columns: int) -> Float[Tensor, "1 T d"]:
        """Position embeddings of a grid: the table, resized bicubically like Hugging Face's DINOv2."""
        if (rows, columns) == (self.table, self.table):
            return self.position
        table = self.position[:, 1:].reshape(1, self.table, self.table, -1).permute(0, 3, 1, 2)
        resized = F.interpolate(table, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.position[:, :1], resized.flatten(2).transpose(1, 2)], 1)


@torch.no_grad()
def init_random(model: nn.Module, seed: int) -> None:
    """Draw every weight anew from the stream of `seed`: normal with deviation 0.02 cut at two, biases 0, scales 1."""
    stream = generator(seed, "vit")
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif "norm" in name or "scale" in name:
            parameter.fill_(1.0)
        else:
            nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04, generator=stream)
