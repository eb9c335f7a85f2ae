"""A pass of two samples before the real one: sizes, bytes, and whether samples stay apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.interaction.backward import Backward
from monoseme.interaction.functions import Function
from monoseme.interaction.pieces import Piece
from monoseme.interaction.places import Place
from monoseme.models import HookedModel

__all__ = ["Pilot", "pilot"]


@dataclass(frozen=True)
class Pilot:
    """What one sample needs.

    Attributes
    ----------
    outputs
        K.
    shapes
        Of the tensors at the places, with the pilot's samples.
    coordinates
        Numbers in one sample of each tensor.
    rows
        (T, D) of one gradient at each place.
    graph
        Bytes that one sample's graph keeps for the backward pass, weights apart.
    itemsize
        Bytes of a number.
    """

    outputs: int
    shapes: tuple[torch.Size, ...]
    coordinates: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]
    graph: int
    itemsize: int

    def sample_bytes(self, m: int) -> int:
        """Graph and stacked rows of m gradients of one sample."""
        return self.graph + self.itemsize * (m + 2) * sum(tokens * width for tokens, width in self.rows)


def pilot(model: HookedModel, places: list[Place], function: Function, batch: Piece) -> Pilot:
    """Run two samples forward and back.

    Raises
    ------
    UserError
        Where gradients of one sample's outputs reach another sample, or none reach a place.
    """
    piece = batch.part(0, min(2, batch.n))
    saved: dict[int, Tensor] = {}
    weights = {w.untyped_storage().data_ptr() for w in (*model.module.parameters(), *model.module.buffers())}

    def keep(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = Backward(model, places, function, piece)
    held = sum(t.untyped_storage().nbytes() for pointer, t in saved.items() if pointer not in weights)
    gradients = graph.pull(_first_sample(graph.y), last=True)
    _apart(places, gradients)
    return Pilot(
        outputs=graph.y.shape[1],
        shapes=tuple(graph.shapes),
        coordinates=tuple(math.prod(g.shape[1:]) for g in gradients),
        rows=tuple((r.shape[1], r.shape[2]) for r in _rows(places, gradients)),
        graph=held // piece.n,
        itemsize=max(g.element_size() for g in gradients),
    )


def _rows(places: list[Place], gradients: list[Tensor]) -> list[Tensor]:
    return [place.view.rows(gradient) for place, gradient in zip(places, gradients, strict=True)]


def _first_sample(y: Tensor) -> Tensor:
    """Uneven weights for the first sample's outputs, none for the second's: even ones can cancel, as in a softmax."""
    cotangent = torch.zeros_like(y)
    cotangent[0] = torch.linspace(1, 2, y.shape[1], dtype=y.dtype, device=y.device).cos()
    return cotangent


def _apart(places: list[Place], gradients: list[Tensor]) -> None:
    for place, gradient in zip(places, gradients, strict=True):
        if bool((gradient[1:] != 0).any()) and not bool(gradient.isnan().any()):
            raise refuse(
                "model",
                "keep samples apart, each on its row of the first axis",
                f"one in which a sample's outputs depend on another sample at {place.name!r}",
                "BatchNorm without running statistics mixes samples: give it some, or another norm.",
            )
