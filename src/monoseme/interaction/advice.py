"""Which shape to take for a budget, from the sweeps that were run: with an interval, and with what was never tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.seeds import rng
from monoseme.interaction.across_budgets import optima
from monoseme.interaction.optimum import Optimum
from monoseme.interaction.shape_table import ShapeTable
from monoseme.learning import SweepResult

__all__ = ["Advice", "recommend_shape"]


@dataclass(frozen=True)
class Advice:
    """What the sweep says of one budget.

    Attributes
    ----------
    budget, family
        What was asked.
    ratio
        R = depth / width with its 95 % interval; its note says from which budgets, and whether outside the tested. Not
        known where the sweep's own optimum next to the budget lies at the edge of its shapes.
    outside
        Whether the budget lies outside those tested.
    tested
        Smallest and largest of these.
    shapes
        Of the shapes given, those whose R lies in the interval as (depth, width), nearest to `ratio` first.
    """

    budget: float
    family: str
    ratio: Outcome
    outside: bool
    tested: tuple[float, float]
    shapes: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """One paragraph: R with its interval, shapes, and what it rests on."""
        if not self.ratio.known:
            return f"{self.family} of {self.budget:,.0f} parameters: R {self.ratio}"
        shapes = ", ".join(f"{depth} × {width}" for depth, width in self.shapes)
        said = f"; depth × width {shapes}" if shapes else ""
        return f"{self.family} of {self.budget:,.0f} parameters: R {self.ratio}{said} ({self.ratio.note})"


def recommend_shape(
    budget: float,
    family: str = "gpt",
    *,
    sweep: SweepResult | ShapeTable,
    shapes: Sequence[tuple[int, int]] = (),
    loss: str = "test_loss",
    draws: int = 2000,
    seed: int = 0,
) -> Advice:
    """Recommend R = depth / width for a parameter budget.

    Between budgets of the sweep ln R is interpolated in ln budget, resample by resample. Outside, nothing tells how R
    goes on: the nearest budget's optimum is given, with an interval over all budgets, and both say so.

    Parameters
    ----------
    budget
        Parameters.
    family
        Kind of network; the sweep must be one of it, which only the caller can know.
    sweep
        A finished shape sweep, or its table.
    shapes
        (depth, width) that the budget allows, to pick from.
    loss
        The number to minimise.
    draws, seed
        Resamples behind the interval, and their stream.

    Raises
    ------
    UserError
        For a budget or shapes that are not positive, or a table that is no shape sweep's.
    """
    if not (np.isfinite(budget) and budget > 0):
        raise refuse("budget", "be a positive number of parameters", budget, "For example 1e6.")
    for depth, width in shapes:
        if depth < 1 or width < 1:
            raise refuse("shapes", "be pairs of depth and width, each at least 1", (depth, width), "Correct it.")
    table = sweep if isinstance(sweep, ShapeTable) else ShapeTable.from_sweep(sweep)
    found = optima(table, loss, draws=draws, seed=seed)
    tested = min(found), max(found)
    outside = not tested[0] <= budget <= tested[1]
    near = _neighbours(budget, tuple(found))
    open_ = [f"at {b:,.0f} parameters, {found[b].fitted.note}" for b in near if not found[b].fitted.known]
    if open_:
        return Advice(budget, family, unknown("ratio", "1", "; ".join(open_)), outside, tested, ())
    known = {b: best for b, best in found.items() if best.fitted.known}
    ratio = _outside(near[0], known, tested) if outside else _between(budget, near, known)
    return Advice(budget, family, ratio, outside, tested, _inside(ratio, shapes))


def _neighbours(budget: float, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """The tested budget itself, the two around it, or the one it lies beyond."""
    below, above = [b for b in budgets if b <= budget], [b for b in budgets if b >= budget]
    return tuple(dict.fromkeys([*below[-1:], *above[:1]]))


def _inside(ratio: Outcome, shapes: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    assert ratio.value is not None
    assert ratio.low is not None
    assert ratio.high is not None
    low, high, middle = ratio.low, ratio.high, np.log(ratio.value)
    inside = [(int(depth), int(width)) for depth, width in shapes if low <= depth / width <= high]
    return tuple(sorted(inside, key=lambda shape: abs(np.log(shape[0] / shape[1]) - middle)))


def _between(budget: float, near: tuple[float, ...], known: Mapping[float, Optimum]) -> Outcome:
    left, right = near[0], near[-1]
    share = float(np.log(budget / left) / np.log(right / left)) if left < right else 0.0
    value, logs = 0.0, 0.0
    for i, (b, weight) in enumerate(((left, 1 - share), (right, share))):
        best = known[b]
        assert best.fitted.value is not None
        # optima of different budgets are independent; their resamples share a stream, so each gets an order of its own
        order = rng(0, "advice", i).permutation(np.clip(best.draws, *best.tested))
        value, logs = value + weight * float(np.log(best.fitted.value)), logs + weight * np.log(order)
    low, high = np.exp(np.quantile(logs, [0.025, 0.975]))
    note = f"tested at {left:,.0f}" if left == right else f"between {left:,.0f} and {right:,.0f}"
    return Outcome(
        "ratio", float(np.exp(value)), "1", float(low), float(high), n=len(near), n_unit="budgets", note=note
    )


def _outside(nearest: float, known: Mapping[float, Optimum], tested: tuple[float, float]) -> Outcome:
    intervals = [(best.fitted.low, best.fitted.high) for best in known.values()]
    low = min(low for low, _ in intervals if low is not None)
    high = max(high for _, high in intervals if high is not None)
    note = (
        f"outside the range tested, {tested[0]:,.0f} to {tested[1]:,.0f}: the optimum at {nearest:,.0f}, with an "
        f"interval over {len(known)} {plural(len(known), 'budgets')}, which knows nothing of a drift beyond them"
    )
    value = known[nearest].fitted.value
    return Outcome("ratio", value, "1", low, high, n=len(known), n_unit="budgets", note=note)
