"""A small matrix of signed numbers, to be drawn as colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.parse import Entry

__all__ = ["LARGEST", "Heat", "heat_json", "read_heat"]

LARGEST = 256  # rows and columns that a page can show


@dataclass(frozen=True)
class Heat:
    """A matrix of at most 256 × 256; `note` says what its rows and columns are, and how they were chosen."""

    title: str
    values: Sequence[Sequence[float]]
    unit: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.values}
        if len(widths) != 1 or not 0 < len(self.values) <= LARGEST or not 0 < min(widths) <= LARGEST:
            got = f"{len(self.values)} rows of {sorted(widths)}"
            raise refuse("values", f"be equal rows, at most {LARGEST} of at most {LARGEST}", got, "Choose some.")
        if not all(math.isfinite(v) for row in self.values for v in row):
            raise refuse("values", "be finite", "NaN or infinity", "Leave these rows out.")


def heat_json(heat: Heat) -> dict[str, Any]:
    """Plain JSON values, to four digits: more than eyes tell apart."""
    return {**vars(heat), "values": [[float(f"{v:.4g}") for v in row] for row in heat.values]}


def read_heat(entry: Entry) -> Heat:
    """Inverse of `heat_json`."""
    rows = []
    for row in entry.items("values"):
        values = [item.value for item in row.items()]
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            raise refuse(row.path, "be a list of numbers", repr(values[:3]), "The file is damaged.")
        rows.append(tuple(float(v) for v in values))
    return Heat(entry.get("title", str), tuple(rows), entry.get("unit", str), entry.get("note", str))
