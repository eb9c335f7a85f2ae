"""The five families by name: the shape of a member, and how it is made. One line here adds a sixth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from monoseme.core.errors import closest, refuse
from monoseme.models.families.cnn import CNN, CNNShape
from monoseme.models.families.gpt import GPT, GPTShape
from monoseme.models.families.gru import GRU, GRUShape
from monoseme.models.families.mlp import MLP, MLPShape
from monoseme.models.families.vit import ViT, ViTShape

__all__ = ["FAMILIES", "Family", "Shape", "family"]


@runtime_checkable
class Shape(Protocol):
    """A member of a family: depth, width, and what follows from them."""

    @property
    def depth(self) -> int:
        """Layers or blocks."""
        ...

    @property
    def width(self) -> int:
        """Units, channels, or the residual stream's width."""
        ...

    def count(self, embeddings: bool = True) -> int:
        """Parameters, exactly; without `embeddings`, those that neither read the input nor write the output."""
        ...

    def flops(self) -> int:
        """Operations of the matrix products in a forward pass of one sample, 2 a multiply-add."""
        ...

    def activations(self) -> int:
        """Numbers kept for the backward pass of one sample, about."""
        ...


@dataclass(frozen=True)
class Family:
    """How shapes and modules of a family are made.

    Attributes
    ----------
    shape
        ``shape(depth, width, **sizes)``.
    module
        ``module(shape, seed)``.
    multiple
        Widths are multiples of it: the default size of an attention head.
    """

    shape: Callable[..., Shape]
    module: Callable[[Any, int], nn.Module]
    multiple: int = 1


FAMILIES: dict[str, Family] = {
    "gpt": Family(GPTShape, GPT, 4),
    "vit": Family(ViTShape, ViT, 4),
    "cnn": Family(CNNShape, CNN),
    "gru": Family(GRUShape, GRU),
    "mlp": Family(MLPShape, MLP),
}


def family(name: str) -> Family:
    """Return a family by name."""
    if name not in FAMILIES:
        raise refuse("family", f"be one of {', '.join(FAMILIES)}", repr(name), closest(name, FAMILIES))
    return FAMILIES[name]
