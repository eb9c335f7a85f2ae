"""Inputs cut into pieces along the samples' axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["Piece", "batches", "pieces"]


@dataclass(frozen=True)
class Piece:
    """Some samples: what the model is called with, and their targets.

    Attributes
    ----------
    inputs
        A tensor, a tuple of arguments, or a dict of keyword arguments.
    targets
        Same samples on the first axis; None when none were given.
    n
        Samples.
    """

    inputs: Any
    targets: Tensor | None
    n: int

    def part(self, start: int, stop: int) -> Piece:
        """Samples start to stop. Tensors of n rows are cut, all else is passed on as it is."""

        def cut(value: Any) -> Any:
            ours = isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.n
            return value[start:stop] if ours else value

        if isinstance(self.inputs, dict):
            inputs: Any = {key: cut(value) for key, value in self.inputs.items()}
        elif isinstance(self.inputs, tuple):
            inputs = tuple(cut(value) for value in self.inputs)
        else:
            inputs = cut(self.inputs)
        return Piece(inputs, cut(self.targets), min(stop, self.n) - start)


def batches(inputs: Any, targets: Tensor | None) -> Iterator[Piece]:
    """One batch of everything; or, from any other iterable, batch after batch."""
    if isinstance(inputs, (Tensor, tuple, dict)):
        yield _piece(inputs, targets)
        return
    if not isinstance(inputs, Iterable) or isinstance(inputs, (str, bytes, np.ndarray)):
        got = type(inputs).__name__
        raise refuse(
            "inputs", "be a tensor, a tuple, a dict, or an iterable of these", got, "For example torch.as_tensor(x)."
        )
    if targets is not None:
        raise refuse("targets", "come with all inputs at once", "an iterable of inputs", "Stack them into one tensor.")
    for one in inputs:
        yield _piece(one, None)


def pieces(batch: Piece, size: int) -> Iterator[Piece]:
    """The batch in pieces of at most `size` samples."""
    for start in range(0, batch.n, size):
        yield batch.part(start, start + size)


def _piece(inputs: Any, targets: Tensor | None) -> Piece:
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else (inputs,)
    first = next((value for value in values if isinstance(value, Tensor) and value.ndim > 0), None)
    if first is None or len(first) == 0:
        got = "none" if first is None else f"a tensor {tuple(first.shape)}"
        raise refuse("inputs", "hold a tensor with samples on its first axis", got, "Stack samples on axis 0.")
    if targets is not None and len(targets) != len(first):
        raise refuse("targets", f"have one row for each of {len(first)} samples", len(targets), "Cut them alike.")
    return Piece(inputs, targets, len(first))
