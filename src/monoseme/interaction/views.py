"""What the coordinates of a gradient are: how a gradient at a hook becomes rows of a factor, (n, T, D).

==========  =========================================  ==============================================  =======
view        at                                         T                                               D
==========  =========================================  ==============================================  =======
`Tokens`    (n, d), (n, ..., d) or a map (n, C, H, W)  tokens, or places of the map                    d or C
`Flat`      any                                        1                                               all
`Patches`   the input of a convolution                 places of its output, times its groups          C k k
`Windows`   a map (n, C, H, W)                         places of the map                               C w w
`OneHot`    the input of an embedding                  tokens                                          symbols
==========  =========================================  ==============================================  =======

`Patches` lets every patch that a convolution unfolds its input to (im2col) be a variable of its own, as its weights see
it (Beaglehole et al. 2023): row p is W̃ᵀ g_p, g the gradient at the convolution's output and W̃ its (C_out, C k k)
weights. `Windows` cuts windows out of the gradient of the map itself, in which overlapping patches have been added up.
`OneHot` is the gradient with respect to the distribution over symbols that an embedding E averages, row t is E g_t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models.layout import to_tokens

__all__ = ["CONVOLUTIONS", "Flat", "OneHot", "Own", "Patches", "Tokens", "View", "Windows"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)

Draw = Callable[[tuple[int, ...]], Tensor]  # random coordinates of a given shape, the samples' axis first


@runtime_checkable
class View(Protocol):
    """How a gradient becomes rows."""

    @property
    def end(self) -> Literal["in", "out"]:
        """End of the module at which the gradient is taken."""
        ...

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """Rows of one output's gradient, not scaled."""
        ...

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """Change of the tensor at the hook when all coordinates move by independent draws."""
        ...


@dataclass(frozen=True)
class Tokens:
    """One row a token; the coordinates are the tensor's last axis, or its channels."""

    end: Literal["in", "out"]
    name: str
    channels_first: bool = False
    channels_last: bool = False

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """Tokens by the module's kind where that settles it, else by the layouts of `HookedModel`."""
        if self.channels_first:
            return gradient.flatten(2).transpose(1, 2)
        if self.channels_last:
            return gradient.reshape(len(gradient), -1, gradient.shape[-1])
        return to_tokens(gradient, self.name)

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """The coordinates are the tensor."""
        return draw(shape)


@dataclass(frozen=True)
class Flat:
    """One row a sample; every number of the tensor is a coordinate."""

    end: Literal["in", "out"]

    def rows(self, gradient: Tensor) -> Float[Tensor, "n 1 D"]:
        """Everything in one row."""
        return gradient.flatten(1).unsqueeze(1)

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """The coordinates are the tensor."""
        return draw(shape)


@dataclass(frozen=True)
class Own(Tokens):
    """A network's own input: a picture is flat, anything else is tokens."""

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """Flat where there are four axes."""
        return Flat(self.end).rows(gradient) if gradient.ndim >= 4 else super().rows(gradient)


@dataclass(frozen=True)
class Patches:
    """One row a patch of a convolution's input, each patch a variable of its own."""

    module: nn.Conv1d | nn.Conv2d | nn.Conv3d
    end: Literal["in", "out"] = "out"

    @property
    def weights(self) -> Float[Tensor, "groups out D"]:
        """W̃ by group."""
        return self.module.weight.detach().flatten(1).unflatten(0, (self.module.groups, -1))

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """W̃ᵀ g_p; the patches of every group."""
        grouped = gradient.flatten(2).unflatten(1, (self.module.groups, -1))  # (n, groups, out, places)
        return (grouped.transpose(2, 3) @ self.weights).flatten(1, 2)

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """W̃ v_p at every place of the output."""
        weights = self.weights
        v = draw((shape[0], len(weights), math.prod(shape[2:]), weights.shape[2]))
        return (v @ weights.mT).transpose(2, 3).reshape(shape)


@dataclass(frozen=True)
class Windows:
    """One row a w × w window of the gradient of a map, padded with zeros to one window a place."""

    end: Literal["in", "out"]
    size: int = 3

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """Cut windows out of the gradient."""
        if gradient.ndim != 4:
            got = f"a tensor {tuple(gradient.shape)}"
            raise refuse("view", "be 'windows' only at maps (n, C, H, W)", got, "Use view='tokens' or 'flat'.")
        return F.unfold(gradient, self.size, padding=self.size // 2).transpose(1, 2)

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """Windows overlap, so they are no coordinates of the input."""
        raise refuse("view", "not be 'windows' on the output side", "'windows'", "Use view='flat' or 'patches'.")


@dataclass(frozen=True)
class OneHot:
    """One row a token, or one a sample when `flat`: coordinates are the symbols an embedding looks up."""

    module: nn.Embedding
    flat: bool = False
    end: Literal["in", "out"] = "out"

    def rows(self, gradient: Tensor) -> Float[Tensor, "n T D"]:
        """E g_t."""
        weight = self.module.weight.detach()
        symbols = gradient.reshape(len(gradient), -1, gradient.shape[-1]) @ weight.T
        return symbols.flatten(1).unsqueeze(1) if self.flat else symbols

    def tangent(self, shape: tuple[int, ...], draw: Draw) -> Tensor:
        """Eᵀ v_t."""
        weight = self.module.weight.detach()
        return draw((*shape[:-1], len(weight))) @ weight
