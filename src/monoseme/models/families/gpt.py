"""A small GPT: tokens in, logits of the next one out (Radford et al. 2019), read top to bottom.

Pre-norm decoder, learned positions, untied head, linear layers without biases. The defaults are the TinyGPT of
arXiv 2605.27989's first author: bytes, 256 at a time, heads of four dimensions.

Hooks worth knowing: the input of ``blocks.0`` is token plus position embedding; ``blocks.i`` the residual stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["GPT", "GPTShape"]


@dataclass(frozen=True)
class GPTShape:
    """Blocks, width of the residual stream, and what is the same for all shapes of a sweep.

    Attributes
    ----------
    depth, width
        Blocks L, and d, a multiple of `head`.
    vocabulary, context
        Symbols V, and tokens T that are seen at once.
    head
        Dimensions of an attention head.
    """

    depth: int
    width: int
    vocabulary: int = 256
    context: int = 256
    head: int = 4

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.vocabulary, self.context, self.head) < 1:
            raise refuse("shape", "have positive sizes", self, "Give at least one block of one head.")
        if self.width % self.head:
            raise refuse("width", f"be a multiple of head ({self.head})", self.width, "Round it, or change head.")

    def count(self, embeddings: bool = True) -> int:
        """Parameters: L(12 d² + 4 d) + 2 d, and with embeddings (2 V + T) d: symbols in and out, and positions."""
        d = self.width
        table = (2 * self.vocabulary + self.context) * d
        return self.depth * (12 * d * d + 4 * d) + 2 * d + (table if embeddings else 0)

    def flops(self) -> int:
        """Operations of a forward pass of T tokens in matrix products, 2 a multiply-add; attention reads all T."""
        d, t = self.width, self.context
        return t * (self.depth * (24 * d * d + 4 * t * d) + 2 * self.vocabulary * d)

    def activations(self) -> int:
        """Numbers kept for the backward pass of T tokens, about: 18 d a token and block, and the logits."""
        return self.context * (18 * self.depth * self.width + 2 * self.vocabulary)


class Attention(nn.Module):
    """Causal self-attention. ``plain`` writes it out: what forward-mode differentiation needs, at T² memory a head."""

    def __init__(self, shape: GPTShape, how: Literal["fused", "plain"]) -> None:
        super().__init__()
        self.head, self.how = shape.head, how
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Let every token read itself and those before it."""
        batch, tokens, width = x.shape
        query, key, value = self.qkv(x).reshape(batch, tokens, 3, -1, self.head).permute(2, 0, 3, 1, 4)
        if self.how == "fused":
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
            scores = (query @ key.transpose(-2, -1) / math.sqrt(self.head)).masked_fill(later, -torch.inf)
            mixed = scores.softmax(-1) @ value
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """x + attn(norm₁ x), then x + mlp(norm₂ x)."""

    def __init__(self, shape: GPTShape, how: Literal["fused", "plain"]) -> None:
        super().__init__()
        d = shape.width
        self.norm1, self.attn = nn.LayerNorm(d), Attention(shape, how)
        self.norm2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d, bias=False), nn.GELU(), nn.Linear(4 * d, d, bias=False))

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Write to the residual stream twice."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Byte-level GPT of a shape.

    Parameters
    ----------
    shape
        Depth, width, and the rest.
    seed
        Of the first weights: normal with deviation 0.02; 0.02/√(2L) where a block writes to the residual stream.
    attention
        ``"fused"``, or ``"plain"`` for forward-mode differentiation.
    """

    def __init__(self, shape: GPTShape, seed: int = 0, attention: Literal["fused", "plain"] = "fused") -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape, attention) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self._draw(seed)

    @torch.no_grad()
    def _draw(self, seed: int) -> None:
        stream = generator(seed, "gpt")
        for name, parameter in self.named_parameters():
            if "norm" not in name:
                writes = name.endswith(("attn.proj.weight", "mlp.2.weight"))
                parameter.normal_(0, 0.02 / math.sqrt(2 * self.shape.depth) if writes else 0.02, generator=stream)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits of the token after each; at most `context` tokens."""
        return self.read(self.embed(tokens))

    def embed(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """Token plus position embedding."""
        if tokens.shape[1] > self.shape.context:
            raise refuse("tokens", f"be at most {self.shape.context} long", tokens.shape[1], "Cut into windows.")
        return self.token(tokens) + self.position.weight[: tokens.shape[1]]

    def read(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T V"]:
        """Logits from embeddings."""
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
