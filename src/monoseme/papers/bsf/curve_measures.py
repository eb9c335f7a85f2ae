"""What the claims about curves are judged by, read from the finished sweep: nothing here trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.papers import finished
from monoseme.papers.bsf.curves import KINDS, SHUFFLED
from monoseme.papers.finished import Row

__all__ = ["of_curves", "recipe"]

MOST = 24  # units counted: more are "25"
DEALT = tuple(f"{name} shuffled" for name in SHUFFLED)
UNITS = {
    "single": "share of the ring", "width": "share of the ring", "coverage": "share of the ring", "live": "units",
    "answers": "gratings", "complex": "gratings", "ripple": "1", "floor": "share",
}  # fmt: skip


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure everything (see `records.reproduce`); all claims read the same sweep."""
    return of_curves(finished.rows(work, "curves", "python -m benchmarks.curves WORK"))


def of_curves(table: Sequence[Row]) -> dict[str, Outcome]:
    """Means over seeds of the trained network, the untrained one under "random …", and differences to controls."""
    trained = [row for row in table if row["weights"] == "pretrained"]
    found = _all(trained, "") | _all([row for row in table if row["weights"] == "random"], "random ")
    pairs = [("blocks 16", name) for name in ("neurons", "latents", "signed latents")]
    for mine, other in pairs + [(name, f"{name} shuffled") for name in SHUFFLED]:
        over = _over([row[f"{mine} single"] - row[f"{other} single"] for row in trained], "over", UNITS["single"])
        found[f"over/{other}"] = over
        found[f"over_low/{other}"] = Outcome("over_low", _known(over.low), over.unit, note=f"{mine} - {other}")
    least = [min(row[f"blocks 16 deviations {i}"] for i in (2, 3)) for row in trained]
    found["least_deviations/blocks 16"] = Outcome("least_deviations", min(least), "deviations", n=len(least))
    return found


def _all(rows: Sequence[Row], prefix: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for kind in ("neurons", *KINDS, *DEALT):
        for number in (*UNITS, *(f"harmonic {i}" for i in range(1, 5))):
            values = [row[f"{kind} {number}"] for row in rows if f"{kind} {number}" in row]  # neurons show no gratings
            if values:
                found[f"{prefix}{number}/{kind}"] = _over(values, number, UNITS.get(number, "share"))
        units = [MOST + 1.0 if math.isnan(row[f"{kind} units"]) else row[f"{kind} units"] for row in rows]
        found[f"{prefix}units/{kind}"] = _over(units, "units", "units")
    return found


def _over(values: Sequence[float], name: str, unit: str) -> Outcome:
    """Mean over seeds with Student's interval; of one seed, or where a seed has none, without."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Outcome(name, None, unit, note="in no seed")
    if len(known) == 1:
        return Outcome(name, known[0], unit, n=1, n_unit="seeds")
    mean = mean_of(known)
    note = "" if len(known) == len(values) else f"in {len(known)} of {len(values)} seeds"
    return Outcome(name, mean.value, unit, mean.low, mean.high, n=len(known), n_unit="seeds", note=note)


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
