"""A finished sweep over steered digits as one page: film strips of every way, and what each moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from monoseme.core.outcome import Outcome
from monoseme.explorer.static import write_pages
from monoseme.learning import SweepResult
from monoseme.learning.numbers import as_outcome
from monoseme.papers.bsf.digit_steering import ATTRIBUTES
from monoseme.papers.bsf.walked_digits import FILM, FRACTIONS, KINDS, SHOWN
from monoseme.records import Comparison, FilmStrip, RunRecord

__all__ = ["digit_record", "write_digit_pages"]

COLUMNS = ("attribute", "fit", "kind", "way", "R² before", "strength", "target moved", "off target", "candidates")
ENLARGED = 4
NOTES = (
    "A stand-in: a small U-Net trained on drawn digits. Attributes are read from pixels by moments, not by a network.",
    "Each kind moves the target by the same mean amount; off target is what the other two attributes move, in "
    "deviations of what was planted. Lower is better.",
)


def write_digit_pages(result: SweepResult, out: Path) -> Path:
    """Save the record into `out`, and its page into out/pages."""
    record = digit_record(result)
    record.save(out)
    return write_pages(record, out / "pages")


def digit_record(result: SweepResult) -> RunRecord:
    """A strip an attribute, of the first fit, and a row a kind and fit."""
    done = sorted(result.rows, key=lambda row: (ATTRIBUTES.index(row.trial.settings["attribute"]), row.trial.seed))
    films = tuple(
        _strip(row.trial.settings["attribute"], result.folder / row.trial.name / "work" / FILM)
        for row in done
        if row.trial.settings["draw"] == 0 and row.status == "done"
    )
    cells = tuple(_cells(row.trial.settings, row.numbers, kind) for row in done for kind in KINDS if row.numbers)
    table = Comparison("Every kind in every fit", COLUMNS, cells, "The best of six candidates, chosen on other noises.")
    facts = {"trials": str(len(result.rows)), "failed": str(len(result.failures))}
    return RunRecord("Steering digits", "sweep", facts, comparisons=(table,), films=films, notes=NOTES)


def _strip(attribute: str, path: Path) -> FilmStrip:
    shown = np.load(path, allow_pickle=False)
    rows = tuple((kind, shown[kind].repeat(ENLARGED, 1).repeat(ENLARGED, 2)) for kind in KINDS)
    steps = ", ".join(f"{part:g}" for part in FRACTIONS)
    note = f"{SHOWN} noises, one above another; columns: {steps} of the strength at which the target moves as wanted."
    return FilmStrip(f"Moving the {attribute}", rows, note)


def _cells(settings: Mapping[str, Any], numbers: Mapping[str, Any], kind: str) -> tuple[str | Outcome, ...]:
    given = [as_outcome(name, numbers[f"{kind} {name}"]) for name in ("r2", "strength", "target", "off", "reached")]
    return (settings["attribute"], str(settings["draw"]), kind, str(numbers[f"{kind} way"]), *given)
