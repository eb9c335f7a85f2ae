"""The slow twin of `agop`: one dense Jacobian a sample, from the definition. For tests, and to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor, nn

from monoseme.interaction.pieces import Piece

__all__ = ["dense_agop"]


def dense_agop(
    module: nn.Module, inputs: Any, at: str | None, side: str, function: Any, view: str, targets: Tensor | None = None
) -> Float64[np.ndarray, "D D"]:
    """G of `agop` with ``positions="mean"``, by `torch.autograd.functional.jacobian` sample after sample.

    `view` is one of "tokens", "map" (channels first), "flat", "patches" (of a Conv2d), "one-hot", "one-hot flat".
    """
    n = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
    whole = Piece(inputs, targets, n)
    total: Any = 0
    for i in range(n):
        piece = whole.part(i, i + 1)
        start, replaced = _start(module, piece, at, view)
        outputs = lambda t, piece=piece, run=replaced: function(run(t), piece)[0]  # noqa: E731
        jacobian = torch.autograd.functional.jacobian(outputs, start)  # (K, 1, *shape of the variable)
        assert isinstance(jacobian, Tensor)
        rows = _rows(jacobian[:, 0], view)  # (K, T, D)
        if side == "output":
            total = total + rows.flatten(1) @ rows.flatten(1).T
        else:
            total = total + torch.einsum("ktd,kte->de", rows, rows) / rows.shape[1]
    return (total / n).double().detach().numpy()


def _start(module: nn.Module, piece: Piece, at: str | None, view: str) -> tuple[Tensor, Any]:
    """The variable's value for this sample, and the network as a function of it."""
    call = lambda: module(*piece.inputs) if isinstance(piece.inputs, tuple) else module(piece.inputs)  # noqa: E731
    if at is None:
        if isinstance(piece.inputs, tuple):
            return piece.inputs[0], lambda t: module(t, *piece.inputs[1:])
        return piece.inputs, module
    path, _, end = at.partition(":")
    part = module.get_submodule(path)
    seen: list[Any] = []
    handle = part.register_forward_hook(lambda _m, args, output: seen.append((args[0], output)))
    call()
    handle.remove()
    before, after = seen[0]
    if view == "patches":
        assert isinstance(part, nn.Conv2d)
        value = F.unfold(before, part.kernel_size, part.dilation, _sides(part), part.stride).mT.contiguous()
    elif view.startswith("one-hot"):
        assert isinstance(part, nn.Embedding)
        value = F.one_hot(before, part.num_embeddings).to(part.weight.dtype)
    else:
        value = (after[0] if isinstance(after, tuple) else after) if end == "out" else before

    def run(t: Tensor) -> Any:
        def swap(_m: nn.Module, _args: Any, output: Any) -> Any:
            if view == "patches":
                assert isinstance(part, nn.Conv2d)
                new = (
                    (t @ part.weight.flatten(1).T + (0 if part.bias is None else part.bias))
                    .mT.contiguous()
                    .reshape(output.shape)
                )
            elif view.startswith("one-hot"):
                assert isinstance(part, nn.Embedding)
                new = t @ part.weight
            else:
                new = t
            return (new, *output[1:]) if isinstance(output, tuple) else new

        if end == "out" or view == "patches" or view.startswith("one-hot"):
            hook = part.register_forward_hook(swap)
        else:
            hook = part.register_forward_pre_hook(lambda _m, args: (t, *args[1:]))
        try:
            return call()
        finally:
            hook.remove()

    return value.detach(), run


def _sides(convolution: nn.Conv2d) -> tuple[int, int]:
    sides = convolution.padding
    assert not isinstance(sides, str)
    return (sides[0], sides[1])


def _rows(jacobian: Tensor, view: str) -> Tensor:
    if view in ("flat", "one-hot flat"):
        return jacobian.flatten(1).unsqueeze(1)
    if view == "map":
        return jacobian.flatten(2).transpose(1, 2)
    return jacobian if jacobian.ndim == 3 else jacobian.unsqueeze(1)
