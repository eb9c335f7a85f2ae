"""All shapes of a family that a parameter budget allows, with true counts; nothing is built or run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from monoseme.core.errors import closest, refuse
from monoseme.models.families import Shape, family

__all__ = ["DEPTHS", "ShapeRow", "shapes"]

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)  # those of the authors' sweep of 2605.27989
WIDEST = 1 << 20


@dataclass(frozen=True)
class ShapeRow:
    """One shape under a budget.

    Attributes
    ----------
    budget
        Parameters allowed.
    depth, width
        Layers or blocks, and units or channels.
    parameters
        True count, of what the budget counts.
    flops
        Operations of a forward pass of one sample, 2 a multiply-add.
    memory
        Bytes to train at a batch of one, about: parameters, gradients and two moments, and activations, float32.
    shape
        The shape itself; ``family(name).module(shape, seed)`` builds it.
    """

    budget: int
    depth: int
    width: int
    parameters: int
    flops: int
    memory: int
    shape: Shape

    @property
    def ratio(self) -> float:
        """R = depth ÷ width."""
        return self.depth / self.width

    @property
    def unused(self) -> float:
        """Share of the budget that the shape leaves."""
        return 1 - self.parameters / self.budget


def shapes(
    name: str,
    budget: float,
    *,
    depths: Iterable[int] = DEPTHS,
    embeddings: bool = True,
    multiple: int | None = None,
    tolerance: float = 0.2,
    **sizes: Any,
) -> list[ShapeRow]:
    """The widest shape of each depth whose parameters stay within the budget.

    Nothing is padded: a shape has the parameters it has, and one that leaves more than `tolerance` of the budget is
    left out. (The code of 2605.27989's first author fills up with parameters that do nothing.)

    Parameters
    ----------
    name
        ``"gpt"``, ``"vit"``, ``"cnn"``, ``"gru"`` or ``"mlp"``.
    budget
        Parameters.
    depths
        Which depths.
    embeddings
        Whether the budget counts what reads the input and writes the output.
    multiple
        Widths are multiples of it; by default of an attention head, or 1.
    tolerance
        Share of the budget that may be left.
    **sizes
        Of the family's shape: ``vocabulary=``, ``context=``, ``side=``, ``outputs=`` and so on.

    Raises
    ------
    UserError
        When no shape fits; the message says what the smallest needs.
    """
    kind = family(name)
    known = inspect.signature(kind.shape).parameters
    for size in sizes:
        if size not in known:
            raise refuse("sizes", f"be those of {name}: {', '.join(known)}", repr(size), closest(size, known))
    if not (math.isfinite(budget) and budget > 0):
        raise refuse("budget", "be a positive number of parameters", budget, "1e6 is a million.")
    least = sizes.get("head", kind.multiple)
    step = least if multiple is None else multiple
    if step < 1 or step % least:
        raise refuse("multiple", f"be a positive multiple of {least}", step, "Leave it out.")
    if not 0 <= tolerance <= 1:
        raise refuse("tolerance", "lie in 0..1, a share of the budget", tolerance, "0.2 is a fifth.")
    asked = sorted(set(depths))
    if not asked or asked[0] < 1:
        raise refuse("depths", "be positive", asked, "Leave them out for 1 to 24.")
    rows = []
    for depth in asked:
        made = _widest(lambda width, d=depth: kind.shape(d, width, **sizes), budget, step, embeddings)
        if made is not None and 1 - made.count(embeddings) / budget <= tolerance:
            rows.append(_row(made, int(budget), embeddings))
    if not rows:
        raise _none(name, budget, asked, [kind.shape(d, step, **sizes).count(embeddings) for d in asked])
    return rows


def _widest(make: Any, budget: float, step: int, embeddings: bool) -> Shape | None:
    """Largest width within the budget, by bisection: counts grow with the width."""
    if make(step).count(embeddings) > budget:
        return None
    low, high = 1, 2
    while make(high * step).count(embeddings) <= budget and high * step < WIDEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if make(middle * step).count(embeddings) <= budget else (low, middle)
    return make(low * step)


def _row(shape: Shape, budget: int, embeddings: bool) -> ShapeRow:
    memory = 4 * (4 * shape.count() + shape.activations())
    return ShapeRow(budget, shape.depth, shape.width, shape.count(embeddings), shape.flops(), memory, shape)


def _none(name: str, budget: float, depths: Sequence[int], smallest: Sequence[int]) -> Exception:
    least = min(smallest)
    got = f"{budget:,.0f} for {name}"
    if least > budget:
        return refuse("budget", f"be at least {least:,}, what the smallest shape needs", got, "Raise it.")
    fix = "Raise the budget or tolerance, or lower multiple."
    return refuse("budget", "be filled by a shape to within tolerance", got, fix)
