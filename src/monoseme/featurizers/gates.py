"""Gates: which blocks are active. A gate sees nothing but the norms of the projected pre-code."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.cones import Sign, block_norms
from monoseme.core.kernels import fast
from monoseme.core.support import Support

__all__ = ["Gate", "Positive", "TopK"]


class Gate(nn.Module, ABC):
    """Norms ↦ support.

    `mostly_on` says that training starts with a large share of blocks active: then dense products beat sparse loops.
    """

    mostly_on: bool = False

    @abstractmethod
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign) -> Support:
        """Support of every row. Not differentiated: gradients flow through the values at the support."""


class Positive(Gate):
    """Every block of non-zero norm. With the cone R₊ and b = 1 this is the ReLU."""

    mostly_on = True

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign) -> Support:
        """All blocks with a norm above zero."""
        return Support.from_mask(block_norms(pre.unflatten(1, (-1, block_size)), sign) > 0)


class TopK(Gate):
    """The k blocks of largest norm on every row; fewer where fewer are non-zero; of equal norms the lower index."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign) -> Support:
        """Π_k, per row."""
        return fast.select_topk(pre, block_size, self.k, sign)
