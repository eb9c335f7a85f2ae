"""What a run's certificates say about one block."""

from __future__ import annotations

import math

import numpy as np

from monoseme.explorer.live.schema import Number, Verdict
from monoseme.explorer.static.certificate_words import GLOSSARY, HEADS, MEANING
from monoseme.records.certificates import VERDICTS, CertificateTable

__all__ = ["NUMBERS", "verdicts"]

NUMBERS = ("removable_loss", "violation_lower", "violation_upper", "strain", "antipode_gain", "split_gain")
PARTNERS = 12  # blocks that are named
CALLED = {**dict(HEADS), "violation_lower": "Violation D, at least", "violation_upper": "Violation D, at most"}
HOW = dict(GLOSSARY)


def verdicts(table: CertificateTable, block: int) -> list[Verdict]:
    """Those on features of the block: one, or two halves of a signed scalar."""
    columns, about = table.features, table.settings.about
    found = []
    for j in np.flatnonzero(columns.block == block).tolist():
        verdict = VERDICTS[int(columns.verdict[j])]
        numbers = [_number(name, float(getattr(columns, name)[j])) for name in NUMBERS]
        partners = dict.fromkeys(columns.block[columns.partners_of(j)].tolist())
        why, side = columns.why[j], int(columns.side[j])
        found.append(Verdict(j, side, verdict, MEANING[verdict][about], why, numbers, list(partners)[:PARTNERS]))
    return found


def _number(name: str, value: float) -> Number:
    """A column's entry: JSON has no infinity, so that is said in words."""
    finite = math.isfinite(value)
    note = HOW.get(CALLED[name].partition(",")[0], "") if finite else "infinite"
    better = None if name.endswith("gain") else "lower"
    return Number(CALLED[name], value if finite else None, None, None, 0.95, None, "", "", better, note)
