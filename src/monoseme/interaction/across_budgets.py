"""How the best shape moves with the budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.seeds import rng
from monoseme.interaction.optimum import Optimum, optimum
from monoseme.interaction.shape_table import ShapeTable

__all__ = ["optima", "stability"]


def optima(
    table: ShapeTable, loss: str = "test_loss", *, degree: int = 3, draws: int = 2000, seed: int = 0
) -> dict[float, Optimum]:
    """`optimum` of every budget of a sweep."""
    found = {}
    for budget in table.budgets:
        part = table.at(budget)
        found[budget] = optimum(part.ratio, part.column(loss), degree=degree, draws=draws, seed=seed)
    return found


def stability(found: Mapping[float, Optimum]) -> Outcome:
    """Slope of ln R at the optimum against ln budget, least squares over budgets: 0 where the best shape does not move.

    The interval resamples each budget's optimum; a resample outside the tested range counts as its end, so that a
    slope of mostly open intervals is too small. Budgets without a known optimum are left out, and the note counts them.
    """
    known = [(budget, best) for budget, best in found.items() if best.fitted.known]
    left = len(found) - len(known)
    if len(known) < 3:
        return unknown(
            "slope", "1", f"{len(known)} {plural(len(known), 'budgets')} with a known optimum; a trend needs three"
        )
    x = np.log([budget for budget, _ in known])
    x = (x - x.mean()) / np.square(x - x.mean()).sum()
    value = float(x @ np.log([best.fitted.value for _, best in known]))  # pyright: ignore[reportCallIssue,reportArgumentType]
    # optima of different budgets are independent: each budget's resamples, which share a stream, in an order of its own
    many = min(len(best.draws) for _, best in known)
    columns = [
        np.log(rng(0, "stability", i).permutation(np.clip(best.draws, *best.tested)[:many]))
        for i, (_, best) in enumerate(known)
    ]
    low, high = np.quantile(x @ np.stack(columns), [0.025, 0.975])
    note = "ln R against ln budget" + (
        f"; {left} {plural(left, 'budgets')} without a known optimum left out" if left else ""
    )
    return Outcome("slope", value, "1", float(low), float(high), n=len(known), n_unit="budgets", note=note)
