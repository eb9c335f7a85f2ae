"""What is differentiated: a name or a callable becomes a function (output, piece) -> (n, K)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import closest, refuse
from monoseme.interaction.pieces import Piece
from monoseme.models import logits

__all__ = ["FUNCTIONS", "Function", "function", "last_logits", "loss", "mean_logits", "outputs", "plain_logits"]

Function = Callable[[Any, Piece], Tensor]


def plain_logits(output: Any, _piece: Piece) -> Float[Tensor, "n K"]:
    """Output of a network that gives one row a sample."""
    found = logits(output)
    if found.ndim == 1:
        return found.unsqueeze(1)
    if found.ndim != 2:
        got = f"outputs {tuple(found.shape)}"
        raise refuse("of", "say which outputs are meant where there are several rows", got, "'last' or 'outputs'.")
    return found


def last_logits(output: Any, _piece: Piece) -> Float[Tensor, "n K"]:
    """Output at the last position of a sequence, (n, T, K)."""
    found = logits(output)
    if found.ndim != 3:
        got = f"outputs {tuple(found.shape)}"
        raise refuse("of", "be 'last' only where outputs are (n, T, K)", got, "Use 'logits' or 'outputs'.")
    return found[:, -1]


def mean_logits(output: Any, _piece: Piece) -> Float[Tensor, "n K"]:
    """Output averaged over positions, of tokens (n, T, K) or a map (n, K, H, W); (n, K) as it is."""
    found = logits(output)
    axes = {2: None, 3: (1,), 4: (2, 3)}
    if found.ndim not in axes:
        got = f"outputs {tuple(found.shape)}"
        raise refuse("of", "be 'mean' only where outputs are (n, K), (n, T, K) or maps", got, "Use 'outputs'.")
    return found if axes[found.ndim] is None else found.mean(axes[found.ndim])


def outputs(output: Any, _piece: Piece) -> Float[Tensor, "n K"]:
    """Every number of the output."""
    found = logits(output)
    return found.flatten(1) if found.ndim > 1 else found.unsqueeze(1)


def loss(output: Any, piece: Piece) -> Float[Tensor, "n 1"]:
    """One loss a sample, (n, 1), summed over positions and dimensions.

    Cross-entropy in nats for integer targets, (n,) beside (n, K) or (n, T) beside (n, T, K); half the squared error
    for floating ones of the outputs' shape.
    """
    found, targets = logits(output), piece.targets
    if targets is None:
        raise refuse("targets", "be given for of='loss'", "None", "Pass targets=, one row a sample.")
    if targets.is_floating_point():
        if targets.shape != found.shape:
            raise refuse("targets", f"have the outputs' shape {tuple(found.shape)}", tuple(targets.shape), "Reshape.")
        return (found - targets).square().flatten(1 if found.ndim > 1 else 0).reshape(len(found), -1).sum(1, True) / 2
    if targets.shape != found.shape[:-1] or found.ndim < 2:
        rule = f"be class numbers of shape {tuple(found.shape[:-1])}"
        raise refuse("targets", rule, tuple(targets.shape), "One class beside every row of outputs.")
    nats = F.cross_entropy(found.flatten(0, -2), targets.flatten(), reduction="none")
    return nats.reshape(len(found), -1).sum(1, True)


FUNCTIONS: dict[str, Function] = {
    "logits": plain_logits,
    "last": last_logits,
    "mean": mean_logits,
    "outputs": outputs,
    "loss": loss,
}


def function(of: str | Function) -> Function:
    """Resolve a name; and hold any function to its shape."""
    if isinstance(of, str):
        if of not in FUNCTIONS:
            raise refuse(
                "of", "be a known name or a function (output, piece) -> (n, K)", repr(of), closest(of, FUNCTIONS)
            )
        chosen = FUNCTIONS[of]
    elif callable(of):
        chosen = of
    else:
        raise refuse("of", "be a name or a function (output, piece) -> (n, K)", type(of).__name__, "Say 'logits'.")

    def checked(output: Any, piece: Piece) -> Tensor:
        y = chosen(output, piece)
        if not isinstance(y, Tensor) or y.ndim != 2 or len(y) != piece.n or not y.is_floating_point():
            got = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
            raise refuse("of", f"give ({piece.n}, K) real numbers, one row a sample", got, "Return (n, K).")
        if torch.is_grad_enabled() and not y.requires_grad:
            raise refuse(
                "of",
                "depend on the places asked for by differentiable steps",
                "an output without gradient",
                "Look for .detach(), no_grad, argmax or rounding on the way.",
            )
        return y

    return checked
