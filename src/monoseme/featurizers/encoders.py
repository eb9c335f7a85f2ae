"""Encoders: rows to pre-codes. A pre-code is what the cone and the gate then work on; all in training units.

Weights are kept as (G·b, d) matrices, blocks under one another, so that one product gives every pre-code and so that a
matrix optimiser (Muon) sees a matrix.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.kernels import fast
from monoseme.core.support import Support

__all__ = ["Encoder", "LinearEncoder", "TiedEncoder"]


class Encoder(nn.Module, ABC):
    """x ↦ pre-code. An encoder is handed the atoms, so that a tied one has nothing of its own to keep in step."""

    @abstractmethod
    def start(self, atoms: Float[Tensor, "G b d"], gain: float) -> None:
        """Initialise so that pre-codes are `gain` times the correlations with the atoms."""

    @abstractmethod
    def pre(self, x: Float[Tensor, "n d"], atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "n Gb"]:
        """Every pre-code: one dense product."""

    @abstractmethod
    def values_at(
        self,
        x: Float[Tensor, "n d"],
        atoms: Float[Tensor, "G b d"],
        support: Support,
        pre: Float[Tensor, "n Gb"] | None = None,
    ) -> Float[Tensor, "nnz b"]:
        """Pre-codes at a support, with gradients; `pre`, if it was computed already, saves the products."""


class LinearEncoder(Encoder):
    """x W ᵀ + a, untied (Vanilla and group-lasso featurizers; ordinary SAEs)."""

    def __init__(self, d_in: int, n_blocks: int, block_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_blocks * block_size, d_in))
        self.bias = nn.Parameter(torch.zeros(n_blocks * block_size))
        self.shape = (n_blocks, block_size)

    @torch.no_grad()
    def start(self, atoms: Float[Tensor, "G b d"], gain: float) -> None:
        """W = gain · D, a = 0."""
        self.weight.copy_(gain * atoms.reshape(self.weight.shape))
        self.bias.zero_()

    def pre(self, x: Float[Tensor, "n d"], atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "n Gb"]:
        """X Wᵀ + a."""
        return torch.nn.functional.linear(x, self.weight, self.bias)

    def values_at(
        self,
        x: Float[Tensor, "n d"],
        atoms: Float[Tensor, "G b d"],
        support: Support,
        pre: Float[Tensor, "n Gb"] | None = None,
    ) -> Float[Tensor, "nnz b"]:
        """X Wᵀ + a at the support."""
        weight = self.weight.reshape(*self.shape, -1)
        return fast.values_at(x, weight, self.bias.reshape(self.shape), support, pre)


class TiedEncoder(Encoder):
    """γ x Dᵀ with γ = exp(log γ) > 0 (Grassmannian featurizer, arXiv 2606.25234 App. D).

    One scalar for all blocks as in the paper, or one a block as in its later public code (`n_blocks` given).
    """

    def __init__(self, n_blocks: int | None = None) -> None:
        super().__init__()
        self.log_gamma = nn.Parameter(torch.zeros(() if n_blocks is None else n_blocks))

    @torch.no_grad()
    def start(self, atoms: Float[Tensor, "G b d"], gain: float) -> None:
        """γ = gain."""
        self.log_gamma.fill_(math.log(gain))

    def pre(self, x: Float[Tensor, "n d"], atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "n Gb"]:
        """γ x Dᵀ."""
        gamma = self.log_gamma.exp()
        if gamma.ndim:
            gamma = gamma.repeat_interleave(atoms.shape[1])
        return gamma * (x @ atoms.reshape(-1, x.shape[-1]).T)

    def values_at(
        self,
        x: Float[Tensor, "n d"],
        atoms: Float[Tensor, "G b d"],
        support: Support,
        pre: Float[Tensor, "n Gb"] | None = None,
    ) -> Float[Tensor, "nnz b"]:
        """γ x Dᵀ at the support."""
        gamma = self.log_gamma.exp()
        if not gamma.ndim:
            return gamma * fast.values_at(x, atoms, None, support, None if pre is None else pre / gamma.detach())
        columns = gamma.detach().repeat_interleave(atoms.shape[1])
        correlations = fast.values_at(x, atoms, None, support, None if pre is None else pre / columns)
        return gamma[support.indices.long()].unsqueeze(1) * correlations
