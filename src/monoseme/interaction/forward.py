"""Jacobians by forward-mode differentiation: one pass for every coordinate, no graph. Cheap where outputs are many."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.autograd.forward_ad as fwad
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from monoseme.core.errors import refuse
from monoseme.interaction.functions import Function
from monoseme.interaction.pieces import Piece
from monoseme.interaction.places import Place, Tap, tapped
from monoseme.models import HookedModel

__all__ = ["columns", "jacobian", "push"]


def push(
    model: HookedModel, place: Place, function: Function, piece: Piece, tangent: Callable[[Tensor], Tensor]
) -> Float[Tensor, "n K"]:
    """J v: how the outputs change when the tensor at `place` moves by v = tangent(tensor).

    Raises
    ------
    UserError
        Where an operation has no forward-mode derivative. torch's own fused attention is replaced by its plain
        formula meanwhile; other fused kernels are refused.
    """
    tap = Tap(place, lambda raw: fwad.make_dual(raw, tangent(raw)))
    try:
        with fwad.dual_level(), sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            # torch's own table for forward mode is still written in TorchScript, and says so when first used
            warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
            with tapped([tap]):
                output = model(piece.inputs)
            with torch.no_grad():
                moved = fwad.unpack_dual(function(output, piece)).tangent
    except (NotImplementedError, RuntimeError) as error:  # torch raises either, by the kind of operation
        if not _unsupported(error):
            raise
        first = next(iter(str(error).splitlines()), "")[:120]
        raise refuse(
            "method",
            "be 'vjp' for a network whose operations have no forward-mode derivative",
            f"'jvp' ({first})",
            "Use method='vjp' with probes=None, or unfused attention.",
        ) from None
    if moved is None:
        got = f"{place.name!r}, of which nothing reaches the outputs"
        raise refuse("at", "name places that the outputs depend on by differentiable steps", got, "Name another place.")
    return moved


def jacobian(
    model: HookedModel, place: Place, function: Function, piece: Piece, shape: torch.Size, outputs: int
) -> Float[Tensor, "n K ..."]:
    """All of J, one coordinate of the tensor after another, samples first."""
    parts = [
        push(model, place, function, piece, lambda raw, c=c: _unit(place, raw, c)) for c in range(_size(place, shape))
    ]
    first = [n for axis, n in enumerate(shape) if axis != place.sample_axis]
    return torch.stack(parts, -1).reshape(piece.n, outputs, *first)


def columns(jacobians: list[Float[Tensor, "n K ..."]]) -> Iterator[list[Tensor]]:
    """Gradients of output after output, as `Backward.every` gives them."""
    for k in range(jacobians[0].shape[1]):
        yield [j[:, k] for j in jacobians]


def _size(place: Place, shape: torch.Size) -> int:
    return math.prod(shape) // shape[place.sample_axis]


def _unit(place: Place, raw: Tensor, coordinate: int) -> Tensor:
    """One coordinate of every sample."""
    ordered = place.samples_first(torch.zeros_like(raw)).contiguous()
    ordered.flatten(1)[:, coordinate] = 1
    return place.samples_first(ordered).contiguous()


def _unsupported(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or ("forward" in text and ("ad" in text.split() or "jvp" in text))
