"""The table of a run's blocks: searched and sorted on the server, so that a page of 50 is all that travels."""

from __future__ import annotations

import math

import numpy as np

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.explorer.live.schema import Block, Blocks, Compared, Comparison, Number
from monoseme.records.run import RunRecord

__all__ = ["BlockTable", "compare", "number"]

MOST = 200  # rows of one answer


class BlockTable:
    """Numbers of all cards as columns; NaN where not known. Columns that no block has are left out."""

    def __init__(self, record: RunRecord) -> None:
        names = dict.fromkeys(o.name for card in record.cards for o in card.outcomes if o.known)
        self.columns = list(names)
        self.blocks = np.array([card.block for card in record.cards], dtype=np.int64)
        self.values = np.full((len(record.cards), len(self.columns)), np.nan)
        place = {name: i for i, name in enumerate(self.columns)}
        for row, card in enumerate(record.cards):
            for o in card.outcomes:
                if o.known and o.value is not None:
                    self.values[row, place[o.name]] = o.value

    def page(self, search: str = "", sort: str = "", falling: bool = True, start: int = 0, count: int = 50) -> Blocks:
        """A piece of the table.

        Parameters
        ----------
        search
            Digits that the block's number begins with; or conditions such as ``density>0.01 reach<0.5``.
        sort
            A column, or "block"; unknown values come last.
        """
        if not 0 < count <= MOST or start < 0:
            raise refuse("count", f"lie in 1..{MOST}, start at least 0", (count, start), "Ask for less.")
        kept = np.flatnonzero(self._matching(search))
        if sort and sort != "block":
            values = self.values[kept, self._column(sort)]
            order = np.argsort(-values if falling else values, kind="stable")  # NaN sorts last either way
            kept = kept[order]
        elif sort == "block" and falling:
            kept = kept[::-1]
        piece = kept[start : start + count]
        rows = [
            Block(
                int(self.blocks[i]), [float(f"{v:.5g}") if math.isfinite(v) else None for v in self.values[i].tolist()]
            )
            for i in piece
        ]
        return Blocks(self.columns, len(kept), rows)

    def _matching(self, search: str) -> np.ndarray:
        kept = np.ones(len(self.blocks), dtype=bool)
        for word in search.split():
            for sign, holds in ((">", np.greater), ("<", np.less)):
                if sign in word:
                    name, _, bound = word.partition(sign)
                    try:
                        limit = float(bound)
                    except ValueError:
                        raise refuse(
                            "search", "compare with a number", repr(word), "For example density>0.01."
                        ) from None
                    kept &= holds(self.values[:, self._column(name)], limit)
                    break
            else:
                if not word.isdecimal():
                    raise refuse("search", "be a block's number or NAME>NUMBER", repr(word), "For example 17.")
                kept &= np.array([str(block).startswith(word) for block in self.blocks.tolist()], dtype=bool)
        return kept

    def _column(self, name: str) -> int:
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise refuse("column", f"be one of {known}", repr(name), closest(name, self.columns))
        return self.columns.index(name)


def number(o: Outcome) -> Number:
    """An outcome as the server says it: what is not finite is not there."""

    def plain(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else float(value)

    return Number(o.name, plain(o.value), plain(o.low), plain(o.high), o.unit, o.better, o.note)


def compare(first: RunRecord, second: RunRecord) -> Comparison:
    """Numbers of two runs by name, those of the first in its order, then what only the second has."""
    one, two = (
        {f"{group.heading}: {o.name}": number(o) for group in record.outcomes for o in group.outcomes}
        for record in (first, second)
    )
    return Comparison([Compared(name, one.get(name), two.get(name)) for name in dict.fromkeys([*one, *two])])
