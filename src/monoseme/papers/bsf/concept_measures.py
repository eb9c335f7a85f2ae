"""What the claims about reading concepts off blocks are judged by, from the finished sweep: nothing here trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.papers import finished
from monoseme.papers.bsf.concept_data import CLASSES
from monoseme.papers.bsf.concepts import KINDS, RAW, SIZES, UNTRAINED
from monoseme.papers.finished import Row

__all__ = ["of_concepts", "recipe"]

LATENTS = ("latents", "signed latents")
TASKS = {"iou": "1", "depth": "R²", "luminance": "R²", "shadow": "R²"}  # probes with all coordinates
ONE = {"azimuth": "azimuth", "depth": "one depth", "luminance": "one luminance", "shadow": "one shadow"}


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure everything (see `records.reproduce`); all claims read the same sweep."""
    return of_concepts(finished.rows(work, "concepts", "python -m benchmarks.concepts WORK"))


def of_concepts(table: Sequence[Row]) -> dict[str, Outcome]:
    """Means over seeds, differences to controls, and the least of the seeds."""
    return _f1(table) | _recall(table) | _probes(table) | _one_block(table) | _recovery(table)


def _of(table: Sequence[Row], kind: str, weights: str = "pretrained") -> list[Row]:
    rows = [row for row in table if row["kind"] == kind and row["weights"] == weights]
    return sorted(rows, key=lambda row: row["draw"])


def _by_class(rows: Sequence[Row], number: str) -> Float64[np.ndarray, " C"]:
    """Mean over seeds for every class; `number` has a place for its name. What is not known is 0: nothing was found."""
    return np.array([np.mean([np.nan_to_num(row[number.format(name)]) for row in rows]) for name in CLASSES])


def _over_classes(name: str, values: Float64[np.ndarray, " C"], unit: str) -> Outcome:
    mean = mean_of(values)
    return Outcome(name, mean.value, unit, mean.low, mean.high, n=len(values), n_unit="classes")


def _gap(name: str, key: str, values: Float64[np.ndarray, " C"], unit: str) -> dict[str, Outcome]:
    """A difference, and the lower end of its interval as a quantity of its own, which rules look at."""
    made = _over_classes(f"{name}_gap", values, unit)
    low = Outcome(f"{name}_gap_low", made.low, unit, n=made.n, n_unit="classes")
    return {f"{name}_gap/{key}": made, f"{name}_gap_low/{key}": low}


def _f1(table: Sequence[Row]) -> dict[str, Outcome]:
    values: dict[str, Float64[np.ndarray, " C"]] = {"chance": _by_class(_of(table, LATENTS[0]), "chance {}")}
    for kind in LATENTS:
        values |= {kind: _by_class(_of(table, kind), "f1 {}")}
        values |= {f"{kind} of {n}": _by_class(_of(table, kind), f"f1 {{}} of {n}") for n in SIZES}
    for b in SIZES:
        rows = _of(table, f"blocks {b}")
        for control in ("", "shuffled ", "permuted "):
            values[f"{control}blocks {b}"] = _by_class(rows, f"{control}f1 {{}}")
    for kind in UNTRAINED:
        if kind != RAW:
            values[f"random {kind}"] = _by_class(_of(table, kind, "random"), "f1 {}")
    found = {f"f1/{kind}": _over_classes("f1", each, "1") for kind, each in values.items()}
    for b in SIZES:
        mine = values[f"blocks {b}"]
        others = {"one": values["signed latents"]} | {kind: values[f"{kind} of {b}"] for kind in LATENTS}
        others |= {control: values[f"{control} blocks {b}"] for control in ("shuffled", "permuted")}
        for other, theirs in others.items():
            found |= _gap("f1", f"{other}/{b}", mine - theirs, "1")
    found |= _gap("f1", "untrained/4", values["blocks 4"] - values["random blocks 4"], "1")
    growth = _over_classes("f1_growth", values[f"blocks {SIZES[-1]}"] - values[f"blocks {SIZES[0]}"], "1")
    return found | {"f1_growth": growth, "f1_growth_low": Outcome("f1_growth_low", growth.low, "1")}


def _recall(table: Sequence[Row]) -> dict[str, Outcome]:
    """Mean over classes of the share of their held-out pictures that a linear probe finds."""
    values = {kind: _by_class(_of(table, kind), "recall {}") for kind in (*KINDS, RAW)}
    values["mean"] = _by_class(_of(table, RAW), "mean recall {}")
    values |= {f"random {kind}": _by_class(_of(table, kind, "random"), "recall {}") for kind in UNTRAINED}
    found = {f"recall/{kind}": _over_classes("recall", each, "share") for kind, each in values.items()}
    for b in SIZES:
        for other in (RAW, "mean", *LATENTS):
            found |= _gap("recall", f"{other}/{b}", values[f"blocks {b}"] - values[other], "share")
    for kind in (*KINDS, RAW):
        found[f"accuracy/{kind}"] = _seeds("accuracy", [row["accuracy"] for row in _of(table, kind)], "share")
    return found


def _probes(table: Sequence[Row]) -> dict[str, Outcome]:
    """Linear probes of tokens with all coordinates, and what they have of raw activations'."""
    found: dict[str, Outcome] = {}
    for task, unit in TASKS.items():
        for kind in (*KINDS, RAW):
            found[f"{task}/{kind}"] = _seeds(task, [row[task] for row in _of(table, kind)], unit)
        for kind in UNTRAINED:
            found[f"{task}/random {kind}"] = _seeds(task, [row[task] for row in _of(table, kind, "random")], unit)
        raw = _of(table, RAW)[0]
        for b in SIZES:
            shares = [row[task] / raw[task] for row in _of(table, f"blocks {b}")]
            found[f"{task}_share/{b}"] = _seeds(f"{task}_share", shares, "share")
        if f"{task} of position" in raw:
            found[f"{task}/position"] = Outcome(task, raw[f"{task} of position"], unit, note="the token's place alone")
    return found


def _one_block(table: Sequence[Row]) -> dict[str, Outcome]:
    """R² from one block or as many latents; differences are between fits with one seed."""
    found: dict[str, Outcome] = {}
    for name, number in ONE.items():
        for b in SIZES:
            rows = _of(table, f"blocks {b}")
            mine = [row[number] for row in rows]
            others = {kind: [row[f"{number} of {b}"] for row in _of(table, kind)] for kind in LATENTS}
            if name == "azimuth":
                others |= {"shuffled": [row["shuffled azimuth"] for row in rows]}
                others |= {"permuted": [row["azimuth permuted"] for row in rows]}
            found[f"{number}/blocks {b}"] = _seeds(name, mine, "R²")
            for other, theirs in others.items():
                gaps = [a - c for a, c in zip(mine, theirs, strict=True)]
                found[f"{number}/{other} of {b}"] = _seeds(name, theirs, "R²")
                found[f"{name}_gap/{other}/{b}"] = _seeds(f"{name}_gap", gaps, "R²")
                found[f"{name}_least/{other}/{b}"] = _least(f"{name}_least", gaps, "R²")
    raw = _of(table, RAW)[0]
    both = (raw["azimuth cos"] + raw["azimuth sin"]) / 2
    return found | {"azimuth/raw": Outcome("azimuth", both, "R²", note="ridge on the mean of all raw activations")}


def _recovery(table: Sequence[Row]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for kind in KINDS:
        rows = _of(table, kind)
        for number in ("recovery", "recovery floor", "recovery ceiling"):
            found[f"{number}/{kind}"] = _seeds(number, [row[number] for row in rows], "1")
    for b in SIZES:
        over = [row["recovery"] - row["recovery floor"] for row in _of(table, f"blocks {b}")]
        found[f"recovery_least/{b}"] = _least("recovery_least", over, "1")
    return found


def _seeds(name: str, values: Sequence[float], unit: str) -> Outcome:
    """Mean over seeds with Student's interval; of one seed without."""
    if len(values) == 1:
        return Outcome(name, values[0], unit, n=1, n_unit="seeds")
    mean = mean_of(values)
    low, high = (end if math.isfinite(end) else None for end in (mean.low, mean.high))
    return Outcome(name, mean.value, unit, low, high, n=len(values), n_unit="seeds")


def _least(name: str, values: Sequence[float], unit: str) -> Outcome:
    return Outcome(name, min(values), unit, n=len(values), n_unit="seeds", note="the least of the seeds")
