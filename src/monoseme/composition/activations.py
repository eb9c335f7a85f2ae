"""Activations of pattern-producing networks, with Picbreeder's scalings; layers in which every neuron has its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import closest, refuse

__all__ = ["ACTIVATIONS", "Bank"]

# sigmoid and gaussian run from -1 to 1 there (Secretan et al. 2011; arXiv 2505.11581)
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": lambda x: 2 * torch.sigmoid(x) - 1,
    "gaussian": lambda x: 2 * torch.exp(-x.square()) - 1,
    "relu": torch.relu,
}

FAST: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": Tensor.sin_,
    "cos": Tensor.cos_,
    "tanh": Tensor.tanh_,
    "relu": Tensor.relu_,
    "gaussian": lambda x: x.square_().neg_().exp_().mul_(2).sub_(1),
    "sigmoid": lambda x: x.sigmoid_().mul_(2).sub_(1),
}


class Bank:
    """One activation a neuron. Neighbours of one kind are done together, so sorted names are fastest.

    Parameters
    ----------
    names
        One of `ACTIVATIONS` for every neuron.
    """

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in ACTIVATIONS:
                raise refuse(
                    "activation", f"be one of {', '.join(ACTIVATIONS)}", repr(name), closest(name, ACTIVATIONS)
                )
        self.names = tuple(names)
        self._runs = [(name, len(list(run))) for name, run in groupby(self.names)]

    def in_place(self, z: Float[Tensor, "... n P"]) -> Float[Tensor, "... n P"]:
        """Activate every row by its own name, overwriting `z`: for pictures without gradients."""
        start = 0
        for name, length in self._runs:
            if name != "identity":
                part = z[..., start : start + length, :]
                FAST[name](part)
            start += length
        return z

    def __call__(self, z: Float[Tensor, "P n"]) -> Float[Tensor, "P n"]:
        """Activate every column by its own name."""
        if len(self._runs) == 1:
            return ACTIVATIONS[self._runs[0][0]](z)
        parts = z.split([length for _, length in self._runs], 1)
        return torch.cat([ACTIVATIONS[name](part) for (name, _), part in zip(self._runs, parts, strict=True)], 1)
