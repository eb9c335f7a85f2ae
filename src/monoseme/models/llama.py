"""A plain Llama-style decoder (Touvron et al. 2023): RMSNorm, rotary positions, grouped keys, gated MLP. Top to bottom.

Hooks worth knowing: ``embed`` (what enters block 0), ``blocks.i`` (residual stream after block i), ``blocks.i.attn``
and ``blocks.i.mlp`` (what each half writes), ``norm`` (what the unembedding reads).

Positions count the real tokens of each row, so the same text padded on the left or on the right has the same
activations at its tokens. What lies at padding means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from monoseme.core.errors import refuse

__all__ = ["Llama", "LlamaShape"]


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a decoder: d, number of blocks, query and key heads, width of the MLP, and two constants."""

    vocabulary: int = 49152
    width: int = 576
    depth: int = 30
    heads: int = 9
    key_heads: int = 3
    hidden: int = 1536
    base: float = 1e5  # θ of the rotary angles, θ^(−2i/size)
    eps: float = 1e-5


class Attention(nn.Module):
    """Causal attention; `heads` queries share `key_heads` keys and values (Ainslie et al. 2023)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = shape.heads, shape.key_heads, shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.heads * self.size, bias=False)
        self.key = nn.Linear(shape.width, shape.key_heads * self.size, bias=False)
        self.value = nn.Linear(shape.width, shape.key_heads * self.size, bias=False)
        self.proj = nn.Linear(shape.heads * self.size, shape.width, bias=False)

    def forward(
        self, x: Float[Tensor, "B T d"], turn: Float[Tensor, "2 B 1 T half"], sees: Bool[Tensor, "B 1 T T"] | None
    ) -> Float[Tensor, "B T d"]:
        """Let every token read those before it; `sees` None is the plain causal mask."""
        batch, tokens, width = x.shape
        query = rotate(self.query(x).view(batch, tokens, self.heads, self.size).transpose(1, 2), turn)
        key = rotate(self.key(x).view(batch, tokens, self.key_heads, self.size).transpose(1, 2), turn)
        value = self.value(x).view(batch, tokens, self.key_heads, self.size).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, key, value, sees, is_causal=sees is None, enable_gqa=True)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class GatedMLP(nn.Module):
    """down(silu(gate x) · up x) (Shazeer 2020)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Work on every token by itself."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """x + attn(norm₁ x), then x + mlp(norm₂ x)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(shape.width, eps=shape.eps)
        self.attn = Attention(shape)
        self.norm2 = nn.RMSNorm(shape.width, eps=shape.eps)
        self.mlp = GatedMLP(shape)

    def forward(
        self, x: Float[Tensor, "B T d"], turn: Float[Tensor, "2 B 1 T half"], sees: Bool[Tensor, "B 1 T T"] | None
    ) -> Float[Tensor, "B T d"]:
        """Write to the residual stream twice."""
        x = x + self.attn(self.norm1(x), turn, sees)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Decoder with tied embeddings: the unembedding is the embedding's transpose.

    Called with keywords, as a `HookedModel` does with ``{"input_ids": ..., "attention_mask": ...}``.
    """

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.depth))
        self.norm = nn.RMSNorm(shape.width, eps=shape.eps)

    def forward(
        self, input_ids: Int[Tensor, "B T"], attention_mask: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token; `attention_mask` is 1 at real tokens and 0 at padding, None without padding."""
        if input_ids.numel() and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < self.shape.vocabulary:
            raise refuse(
                "input_ids",
                f"lie in 0..{self.shape.vocabulary - 1}",
                f"{int(input_ids.min())}..{int(input_ids.max())}",
                "Use the tokenizer of this model.",
            )
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real, sees = mask.bool(), None
        if not bool(real.all()):
            steps = torch.arange(input_ids.shape[1], device=input_ids.device)
            before, itself = steps[:, None] >= steps, steps[:, None] == steps
            # padding sees itself: a token that sees nothing would be 0/0
            sees = ((before & real[:, None]) | itself)[:, None]
        x = self.embed(input_ids)
        turn = angles((real.cumsum(1) - 1).clamp(min=0), self.shape).to(x.dtype)
        for block in self.blocks:
            x = block(x, turn, sees)
        return F.linear(self.norm(x), self.embed.weight)


def angles(positions: Int[Tensor, "B T"], shape: LlamaShape) -> Float[Tensor, "2 B 1 T half"]:
    """Cosine and sine of position · base^(−2i/size), for every pair i of a head (Su et al. 2021, eq. 15)."""
    half = shape.width // shape.heads // 2
    speed = shape.base ** -(torch.arange(half, dtype=torch.float64, device=positions.device) / half)
    angle = (positions.to(torch.float64)[..., None] * speed)[:, None]
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Float[Tensor, "B h T size"], turn: Float[Tensor, "2 B 1 T half"]) -> Float[Tensor, "B h T size"]:
    """Turn neighbouring entries (2i, 2i+1) by their angle: the order of the paper, and of GGUF files."""
    cos, sin = turn
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
