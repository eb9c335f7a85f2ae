"""The authors' own table of 11 budgets, one seed each, with a smooth fit and intervals; the file is not ours to ship.

The claims and their rules were fixed first. They call the fit smooth and say no more: a parabola was tried first, then
the cubic became the default because of its coverage in simulations, before its result on this table was seen. Both are
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.correlation import correlations
from monoseme.interaction.shape_table import ShapeTable
from monoseme.papers.interaction.measures import SMALLEST, inside

__all__ = ["authors_table", "reanalyse", "recipe"]

FILE = "authors_ntp_sweep.csv"
COLUMNS = {
    "budget": "target_n",
    "depth": "depth",
    "width": "d_model",
    "test_loss": "test_ce",
    "ratio_out": "aofe_ratio",
    "aofe_out": "aofe",
    "ratio_weights": "wtw_aofe_ratio",
}


def authors_table(path: Path) -> ShapeTable:
    """Read the authors' table of TinyGPT on WikiText-103, without a row that is of another task (no cross-entropy)."""
    table = ShapeTable.from_csv(path, COLUMNS)
    return table.where(np.isfinite(table.column("test_loss")))


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure all claims (see `records.reproduce`); the file is taken from the work folder."""
    if not (work / FILE).is_file():
        fix = "Make it from the result files of the authors' repository Interaction_Law, and put it there."
        raise refuse("work", f"hold {FILE}", "none", fix)
    return reanalyse(authors_table(work / FILE))


def reanalyse(table: ShapeTable, draws: int = 2000) -> dict[str, Outcome]:
    """Find every budget's optimum and correlations, and what they say from 1M parameters on."""
    found = optima(table, draws=draws)
    large = {budget: best for budget, best in found.items() if budget >= SMALLEST}
    parabolas = optima(table.where(table.budget >= SMALLEST), degree=2, draws=draws)
    outcomes: dict[str, Outcome] = {
        "authors/inside_share": inside(list(large.values())),
        "authors/interval_inside_share": inside(list(large.values()), whole=True),
        "authors/slope": stability(large),
        "authors/parabola_inside_share": inside(list(parabolas.values())),
        "authors/parabola_interval_inside_share": inside(list(parabolas.values()), whole=True),
        "authors/parabola_slope": stability(parabolas),
    }
    for budget, best in found.items():
        outcomes |= {f"authors/{budget:.0f}/{outcome.name}": outcome for outcome in best.outcomes()}
    for c in correlations(table, ("ratio_out", "aofe_out", "log10 aofe_out", "ratio_weights"), draws=draws):
        place = f"{c.budget:.0f}" if c.budget is not None else c.scope
        outcomes |= {f"authors/{place}/{c.number}/{o.name}": o for o in (c.pearson, c.spearman)}
    largest = max(
        (outcomes[f"authors/{budget:.0f}/ratio_out/pearson"] for budget in large), key=lambda o: o.value or -2.0
    )
    pooled = outcomes["authors/pooled/ratio_out/pearson"]
    return outcomes | {"authors/largest_pearson": largest, "authors/pooled_pearson": pooled}
