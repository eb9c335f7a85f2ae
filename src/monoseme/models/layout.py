"""Between a module's own output layout and tokens, (B, T, d), and back; and the logits of a whole model's output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["from_tokens", "logits", "main_tensor", "put_back", "replaced", "to_tokens"]


def logits(output: Any) -> Tensor:
    """Return the logits of a model's output, which is a tensor or has a field of that name.

    Examples
    --------
    >>> logits(torch.zeros(2, 5)).shape
    torch.Size([2, 5])
    """
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor):
        raise refuse(
            "output", "be a tensor or have .logits", type(output).__name__, "Use a language model or a classifier."
        )
    return found


def main_tensor(output: Any, at: str) -> Tensor:
    """Return the tensor a hook speaks of: the output itself, or element 0 of a tuple or list."""
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    if not isinstance(first, Tensor):
        raise refuse(
            "at",
            "name a module that returns a tensor, or a tuple that starts with one",
            f"{at!r}, which returns {type(output).__name__}",
            "Hook one of its submodules.",
        )
    if not first.is_floating_point():
        raise refuse(
            "at", "name a module with floating-point output", f"{at!r} with {first.dtype}", "Hook another module."
        )
    return first


def to_tokens(raw: Tensor, at: str) -> Float[Tensor, "B T d"]:
    """(B, d), (B, T, d) or (B, C, H, W) as (B, T, d)."""
    if raw.ndim == 2:
        return raw.unsqueeze(1)
    if raw.ndim == 3:
        return raw
    if raw.ndim == 4:
        return raw.flatten(2).transpose(1, 2)
    raise refuse(
        "at", "give (B, d), (B, T, d) or (B, C, H, W)", f"{at!r} with {tuple(raw.shape)}", "Hook another module."
    )


def from_tokens(tokens: Float[Tensor, "B T d"], shape: torch.Size) -> Tensor:
    """Inverse of `to_tokens` for an output of this shape."""
    if len(shape) == 4:
        return tokens.transpose(1, 2).reshape(shape)
    return tokens.reshape(shape)


def put_back(output: Any, new: Tensor) -> Any:
    """Return the module's output with its main tensor replaced."""
    if isinstance(output, Tensor):
        return new
    rest = [new, *output[1:]]
    if hasattr(output, "_fields"):  # a named tuple takes its fields one by one
        return type(output)(*rest)
    return type(output)(rest)


def replaced(output: Any, at: str, fn: Callable[[Tensor], Tensor]) -> Any:
    """Return the module's output with its main tensor's tokens mapped by `fn`, which keeps their shape."""
    raw = main_tensor(output, at)
    tokens = to_tokens(raw, at)
    new = fn(tokens)
    if new.shape != tokens.shape:
        raise refuse("fn", f"keep the shape {tuple(tokens.shape)}", tuple(new.shape), "It maps tokens to tokens.")
    return put_back(output, from_tokens(new.to(raw.dtype), raw.shape))
