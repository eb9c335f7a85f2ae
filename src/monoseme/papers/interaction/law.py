"""The law as three statements about a shape sweep: shallow, inside the interval, deep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import mean_of
from monoseme.interaction.compare import INTERVAL
from monoseme.interaction.shape_table import ShapeTable
from monoseme.papers.interaction.finished import ENERGY, LOSS, RATIO

__all__ = ["law"]

Masks = dict[str, np.ndarray]


def _masks(table: ShapeTable) -> Masks:
    r = table.ratio
    return {"shallow": r < INTERVAL[0], "inside": (r >= INTERVAL[0]) & (r <= INTERVAL[1]), "deep": r > INTERVAL[1]}


def law(table: ShapeTable) -> dict[str, Outcome]:
    """Measure the claims (a), (b), (c) of the law on a shape sweep with several seeds."""
    found = _steps(table, RATIO, "shallow", "inside", "ratio_rise")
    found |= _steps(table, f"log10 {ENERGY}", "inside", "deep", "energy_rise")
    found |= _steps(table, LOSS, "inside", "deep", "loss_rise")
    return {f"law/{name}": outcome for name, outcome in {**found, **_plane(table)}.items()}


def _by_budget(table: ShapeTable, measure: Callable[[ShapeTable, Masks], float | None]) -> Float64[np.ndarray, " k"]:
    """A number of each budget, on means over seeds; budgets that have none are left out."""
    means = table.over_seeds()
    values = [measure(part, _masks(part)) for part in map(means.at, means.budgets)]
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _steps(table: ShapeTable, number: str, start: str, end: str, name: str) -> dict[str, Outcome]:
    """Mean over budgets of a number's rise from one group of shapes to another, with its interval over seeds."""

    def rise(part: ShapeTable, masks: Masks) -> float | None:
        values = part.column(number)
        known = [values[masks[group] & np.isfinite(values)] for group in (end, start)]
        return float(known[0].mean() - known[1].mean()) if len(known[0]) and len(known[1]) else None

    each = _by_budget(table, rise)
    share = name.replace("_rise", "_rises_share")
    if not len(each):
        why = f"no budget has shapes both {start} and {end}"
        return {key: unknown(key, "1", why) for key in (name, f"{name}_low", share)}
    seeds = [_by_budget(table.where(table.seed == seed), rise) for seed in np.unique(table.seed)]
    m = mean_of([float(values.mean()) for values in seeds if len(values)])
    low, high = (m.low, m.high) if m.n > 1 else (None, None)
    note = f"{end} less {start}, mean of {len(each)} of {len(table.budgets)} budgets"
    whole = Outcome(name, float(each.mean()), "1", low, high, n=m.n, n_unit="seeds", note=note)
    lowest = Outcome(f"{name}_low", low, "1", note=note) if low is not None else unknown(f"{name}_low", "1", "one seed")
    rises = Outcome(share, float((each > 0).mean()), "share", n=len(each), n_unit="budgets", note=note)
    return {name: whole, f"{name}_low": lowest, share: rises}


def _plane(table: ShapeTable) -> dict[str, Outcome]:
    """Share of shapes in the quarter of the plane where the ratio is high and AOFE is not, inside and outside.

    High: at least the median over the budget's shapes; not high: at most. Energies are scale-normalised.
    """

    def benign(part: ShapeTable) -> np.ndarray:
        ratio, energy = part.column(RATIO), part.column(f"log10 {ENERGY}")
        return (ratio >= np.nanmedian(ratio)) & (energy <= np.nanmedian(energy))

    def share(inside: bool) -> Callable[[ShapeTable, Masks], float | None]:
        def measure(part: ShapeTable, masks: Masks) -> float | None:
            mine = masks["inside"] == inside
            return float(benign(part)[mine].mean()) if masks["inside"].any() and mine.any() else None

        return measure

    def loss(inside: bool) -> Callable[[ShapeTable, Masks], float | None]:
        def measure(part: ShapeTable, masks: Masks) -> float | None:
            mine = masks["inside"] == inside
            return float(np.nanmean(part.column(LOSS)[mine])) if masks["inside"].any() and mine.any() else None

        return measure

    made = {
        f"{kind}_{side}": _by_budget(table, measure(side == "inside"))
        for kind, measure in (("benign", share), ("loss", loss))
        for side in ("inside", "outside")
    }
    note = "mean over budgets that have shapes inside"
    return {
        name: Outcome(name, float(each.mean()), "share" if "benign" in name else "1", n=len(each), n_unit="budgets",
                      better="lower" if "loss" in name else None, note=note)
        if len(each) else unknown(name, "1", "no budget has shapes inside the interval")
        for name, each in made.items()
    }  # fmt: skip
