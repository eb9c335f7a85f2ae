"""Gradients at many places from one graph: one forward pass, then one backward pass for every output or probe.

Weights are frozen meanwhile, so that a backward pass costs about one forward pass. Gradients of all samples come from
one product, which is right only while no output reads another sample; the pilot checks that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from monoseme.core.errors import refuse
from monoseme.interaction.functions import Function
from monoseme.interaction.pieces import Piece
from monoseme.interaction.places import Place, Tap, tapped
from monoseme.models import HookedModel

__all__ = ["Backward", "frozen", "stacked_rows"]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Within the ``with``, no parameter asks for a gradient, and layers run unfused; then all as before."""
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # the fused encoder layer calls none of its submodules
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        # cuDNN's recurrent kernels have no backward pass in evaluation mode; torch's own have
        with torch.backends.cudnn.flags(enabled=not any(isinstance(child, nn.RNNBase) for child in module.modules())):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


class Backward:
    """The graph of one piece, and its gradients at every place. To be used within `frozen`."""

    def __init__(self, model: HookedModel, places: list[Place], function: Function, piece: Piece) -> None:
        self.places = places
        taps = [_Edge(place) for place in places]
        with tapped([*taps]):
            output = model(piece.inputs, grad=True)
        with torch.enable_grad():
            self.y: Float[Tensor, "n K"] = function(output, piece)
        self.edges = [tap.edge for tap in taps]
        self.shapes = [tap.shape for tap in taps]
        for place, shape in zip(places, self.shapes, strict=True):
            if len(shape) < 2 or shape[place.sample_axis] != piece.n:
                rule = f"name a tensor with the {piece.n} samples on its axis {place.sample_axis}, and one more axis"
                raise refuse("at", rule, f"{place.name!r} with {tuple(shape)}", "Name another module.")

    def pull(self, cotangent: Float[Tensor, "n K"], last: bool = False) -> list[Tensor]:
        """Gradients of Σ cotangent · y at every place, samples first. `last` frees the graph."""
        found = torch.autograd.grad(self.y, self.edges, cotangent, retain_graph=not last, allow_unused=True)
        gradients: list[Tensor] = []
        for place, gradient in zip(self.places, found, strict=True):
            if gradient is None:
                raise refuse(
                    "at",
                    "name places that the outputs depend on by differentiable steps",
                    f"{place.name!r}, which no gradient reaches",
                    "Name a place before the break, or look for .detach(), no_grad or argmax behind it.",
                )
            gradients.append(place.samples_first(gradient))
        return gradients

    def every(self) -> Iterator[list[Tensor]]:
        """Gradients of output after output."""
        outputs = self.y.shape[1]
        for k in range(outputs):
            one = torch.zeros_like(self.y)
            one[:, k] = 1
            yield self.pull(one, last=k == outputs - 1)

    def sketched(self, cotangents: list[Tensor]) -> Iterator[list[Tensor]]:
        """Gradients of random combinations of outputs, (n, K) each, scaled so that their outer products average."""
        m = len(cotangents)
        for j, v in enumerate(cotangents):
            yield self.pull(v.to(self.y) / m**0.5, last=j == m - 1)


class _Edge(Tap):
    """Keeps where in the graph the tensor was.

    The module gets a copy: a tensor that others read too has a gradient of its own here, and a module that overwrites
    its input does not overwrite what is differentiated. Where no graph arrives, one begins.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place, self._swap)

    def _swap(self, raw: Tensor) -> Tensor:
        start = raw if raw.requires_grad else raw.detach().requires_grad_()
        copy = start.clone()
        self.edge, self.shape = get_gradient_edge(copy), raw.shape
        return copy


def stacked_rows(places: list[Place], gradients: Iterable[list[Tensor]], m: int) -> list[Float[Tensor, "n m T D"]]:
    """Rows of m gradients at every place, side by side."""
    stacks: list[Tensor] = []
    for j, found in enumerate(gradients):
        for index, (place, gradient) in enumerate(zip(places, found, strict=True)):
            rows = place.view.rows(gradient)
            if j == 0:
                stacks.append(rows.new_empty(rows.shape[0], m, *rows.shape[1:]))
            stacks[index][:, j] = rows
    return stacks
