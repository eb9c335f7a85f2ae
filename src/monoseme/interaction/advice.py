"""Which shape to take for a budget, from the sweeps that were run: with an interval, and with what was never tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

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
        R = depth / width with its 95 % interval; its note says from which budgets, and whether outside the tested.
    outside
        Whether the budget lies outside those whose optimum is known.
    tested
        Smallest and largest of these; ``None`` when no optimum is known.
    shapes
        Of the shapes given, those whose R lies in the interval as (depth, width), nearest to `ratio` first.
    """

    budget: float
    family: str
    ratio: Outcome
    outside: bool
    tested: tuple[float, float] | None
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
    known = {b: best for b, best in found.items() if best.fitted.known}
    if not known:
        why = "; ".join(f"{b:,.0f}: {best.fitted.note}" for b, best in found.items())
        return Advice(budget, family, unknown("ratio", "1", f"no budget has a known optimum: {why}"), True, None, ())
    tested = min(known), max(known)
    outside = not tested[0] <= budget <= tested[1]
    ratio = _outside(budget, known) if outside else _between(budget, known)
    return Advice(budget, family, ratio, outside, tested, _inside(ratio, shapes))


def _inside(ratio: Outcome, shapes: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    assert ratio.value is not None
    assert ratio.low is not None
    assert ratio.high is not None
    low, high, middle = ratio.low, ratio.high, np.log(ratio.value)
    inside = [(int(depth), int(width)) for depth, width in shapes if low <= depth / width <= high]
    return tuple(sorted(inside, key=lambda shape: abs(np.log(shape[0] / shape[1]) - middle)))


def _logs(known: Mapping[float, Optimum]) -> Float64[np.ndarray, "k b"]:
    """Resampled ln R of every budget, each in an order of its own: budgets are independent, their streams are not."""
    many = min(len(best.draws) for best in known.values())
    ends = [np.log(np.clip(best.draws[:many], *best.tested)) for best in known.values()]
    return np.stack([rng(0, "advice", i).permutation(draws) for i, draws in enumerate(ends)])


def _between(budget: float, known: Mapping[float, Optimum]) -> Outcome:
    budgets = np.array(list(known))
    right = max(int(np.searchsorted(budgets, budget)), 1) if len(budgets) > 1 else 0
    left = max(right - 1, 0)
    span = np.log(budgets[right] / budgets[left])
    share = float(np.log(budget / budgets[left]) / span) if span else 0.0
    best, logs = [float(np.log(o.fitted.value)) for o in known.values() if o.fitted.value], _logs(known)
    value = float(np.exp((1 - share) * best[left] + share * best[right]))
    low, high = np.exp(np.quantile((1 - share) * logs[left] + share * logs[right], [0.025, 0.975]))
    exact = [b for b, s in ((budgets[left], 1 - share), (budgets[right], share)) if s > 1 - 1e-9]
    note = f"tested at {exact[0]:,.0f}" if exact else f"between {budgets[left]:,.0f} and {budgets[right]:,.0f}"
    return Outcome("ratio", value, "1", float(low), float(high), n=len(known), n_unit="budgets", note=note)


def _outside(budget: float, known: Mapping[float, Optimum]) -> Outcome:
    nearest = min(known, key=lambda b: abs(np.log(b / budget)))
    intervals = [(best.fitted.low, best.fitted.high) for best in known.values()]
    low = min(low for low, _ in intervals if low is not None)
    high = max(high for _, high in intervals if high is not None)
    note = (
        f"outside the range tested, {min(known):,.0f} to {max(known):,.0f}: the optimum at {nearest:,.0f}, with an "
        f"interval over {len(known)} {plural(len(known), 'budgets')}, which knows nothing of a drift beyond them"
    )
    value = known[nearest].fitted.value
    return Outcome("ratio", value, "1", low, high, n=len(known), n_unit="budgets", note=note)
