"""What a run's certificates say about one block."""

from __future__ import annotations

import math

import numpy as np

from monoseme.explorer.live.schema import Number, Verdict
from monoseme.explorer.static.certificate_words import GLOSSARY, HEADS, MEANING
from monoseme.records.certificates import VERDICTS, CertificateTable

__all__ = ["verdicts"]

NUMBERS = ("removable_loss", "violation_lower", "strain", "antipode_gain", "split_gain")
PARTNERS = 12  # blocks that are named
CALLED, HOW = dict(HEADS), dict(GLOSSARY)


def verdicts(table: CertificateTable, block: int) -> list[Verdict]:
    """Those on features of the block: one, or two halves of a signed scalar."""
    columns, about = table.features, table.settings.about
    found = []
    for j in np.flatnonzero(columns.block == block).tolist():
        verdict = VERDICTS[int(columns.verdict[j])]
        numbers = [_number(table, name, j) for name in NUMBERS]
        partners = dict.fromkeys(columns.block[columns.partners_of(j)].tolist())
        why, side = columns.why[j], int(columns.side[j])
        found.append(Verdict(j, side, verdict, MEANING[verdict][about], why, numbers, list(partners)[:PARTNERS]))
    return found


def _number(table: CertificateTable, name: str, feature: int) -> Number:
    """A column's entry; JSON has no infinity, so what is infinite is not there, and its note says so.

    A violation is known between two bounds; the upper one is not there when it is infinite.
    """
    value = float(getattr(table.features, name)[feature])
    low = high = None
    if name == "violation_lower":
        low, upper = value, float(table.features.violation_upper[feature])
        high = upper if math.isfinite(upper) else None
    note = HOW[CALLED[name]] if math.isfinite(value) else "infinite"
    better = None if name.endswith("gain") else "lower"
    return Number(CALLED[name], value if math.isfinite(value) else None, low, high, 1.0, None, "", "", better, note)
