"""The table of a run's blocks: searched and sorted on the server, so that a page of 50 is all that travels."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.explorer.live.schema import Block, Blocks, Card, Compared, Comparison, Number, Seen
from monoseme.records.run import RunRecord

__all__ = ["BlockTable", "compare", "number"]

MOST = 200  # rows of one answer


class BlockTable:
    """Numbers of all cards as columns; NaN where not known. Columns that no block has are left out."""

    def __init__(self, record: RunRecord) -> None:
        self._record, self._place = record, {card.block: i for i, card in enumerate(record.cards)}
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
            Words that must all hold: digits that the block's number begins with; conditions such as
            ``density>0.01 stable_rank<2`` (spaces in a column's name are underscores here); or a part of a label, or of
            a token it fires on, of the samples on its card.
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

    def card(self, block: int) -> Card:
        """One block whole."""
        if block not in self._place:
            raise refuse("block", "be one of the run", block, "See the table of its blocks.")
        found = self._record.cards[self._place[block]]
        shown = []
        for item in found.shown:
            at = np.flatnonzero(item.presence > 0)
            view = self._record.samples.get(item.sample)
            label, tokens = ("", ()) if view is None else (view.label, view.tokens)
            presence, place = _rounded(item.presence[at]), _rounded(item.place[at])
            shown.append(Seen(item.sample, label, *item.grid, list(tokens), at.tolist(), presence, place))
        numbers = [number(o) for o in found.outcomes]
        return Card(
            found.block, found.block_size, numbers, shown, _rounded(found.cloud[np.isfinite(found.cloud).all(1)])
        )

    def _matching(self, search: str) -> np.ndarray:
        kept = np.ones(len(self.blocks), dtype=bool)
        for word in search.split():
            sign = next((c for c in word if c in "<>"), "")
            if sign:
                name, _, bound = word.partition(sign)
                try:
                    limit = float(bound)
                except ValueError:
                    limit = math.nan
                if math.isnan(limit):
                    raise refuse("search", "compare with a number", repr(word), "For example density>0.01.")
                holds = np.greater if sign == ">" else np.less
                kept &= holds(self.values[:, self._column(name)], limit)
            elif word.isascii() and word.isdecimal():
                kept &= np.array([str(block).startswith(word) for block in self.blocks.tolist()], dtype=bool)
            else:
                kept &= np.array([word.casefold() in text for text in self._words], dtype=bool)
        return kept

    @cached_property
    def _words(self) -> list[str]:
        """What each block's samples are called and the tokens it fires on, in lines; made at the first such search."""
        samples, found = self._record.samples, []
        for card in self._record.cards:
            words: set[str] = set()
            for item in card.shown:
                view = samples.get(item.sample)
                if view is not None:
                    fired = np.flatnonzero(item.presence > 0).tolist() if view.tokens else []
                    words |= {view.label, *(view.tokens[i] for i in fired if i < len(view.tokens))}
            found.append("\n".join(words).casefold())
        return found

    def _column(self, name: str) -> int:
        plain = [column.replace(" ", "_") for column in self.columns]
        if name.replace(" ", "_") not in plain:
            raise refuse("column", f"be one of {', '.join(plain)}", repr(name), closest(name, plain))
        return plain.index(name.replace(" ", "_"))


def _rounded(values: np.ndarray) -> list[Any]:
    """Four significant digits, as lists; what is not finite is 0."""
    flat = [float(f"{v:.4g}") for v in np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0).ravel().tolist()]
    return np.array(flat).reshape(values.shape).tolist()


def number(o: Outcome) -> Number:
    """An outcome as the server says it: what is not finite is not there."""

    def plain(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else float(value)

    ends = plain(o.low), plain(o.high)
    return Number(o.name, plain(o.value), *ends, o.confidence, o.n, o.n_unit, o.unit, o.better, o.note)


def compare(first: RunRecord, second: RunRecord) -> Comparison:
    """Numbers of two runs by name, those of the first in its order, then what only the second has."""
    one, two = (
        {f"{group.heading}: {o.name}": number(o) for group in record.outcomes for o in group.outcomes}
        for record in (first, second)
    )
    return Comparison([Compared(name, one.get(name), two.get(name)) for name in dict.fromkeys([*one, *two])])
