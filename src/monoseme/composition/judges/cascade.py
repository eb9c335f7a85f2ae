"""Two judges in a row: the cheap one decides where it is sure, the costly one is asked in the doubtful band between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Judge, Verdict
from monoseme.core.errors import refuse

__all__ = ["CascadeJudge", "band"]


class CascadeJudge:
    """The first judge's answer where its score lies outside a band, the second's inside.

    Parameters
    ----------
    first
        Cheap, with a score; the band is of its scores.
    second
        Costly. It is also asked where the first has no score, or no valid answer.
    low, high
        Ends of the band, both in it.
    """

    def __init__(self, first: Judge, second: Judge, low: float, high: float) -> None:
        if not low <= high:  # NaN too
            raise refuse("low and high", "be ends of a band", (low, high), "band(...) finds them.")
        self.first, self.second, self.low, self.high, self.sent, self.seen = first, second, low, high, 0, 0
        # JSON knows no infinity
        ends = {name: end if math.isfinite(end) else str(end) for name, end in (("low", low), ("high", high))}
        self.about: Mapping[str, Any] = {
            "judge": "cascade",
            **ends,
            "first": dict(first.about),
            "second": dict(second.about),
        }

    @property
    def batch(self) -> int:
        """The second judge's: what is judged at once is what a run that is killed pays twice."""
        return self.second.batch

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """Verdicts; ``sent`` of ``seen`` pictures went on to the second judge so far."""
        verdicts = list(self.first.judge(pictures))
        # a score that is no number lies nowhere, so it is in doubt
        doubtful = [
            i
            for i, one in enumerate(verdicts)
            if one.score is None or not _decided(one) or self.low <= one.score <= self.high
        ]
        for start in range(0, len(doubtful), self.second.batch):
            part = doubtful[start : start + self.second.batch]
            for i, one in zip(part, self.second.judge(pictures[torch.tensor(part)]), strict=True):
                verdicts[i] = Verdict(one.answer, one.score, f"second judge; {one.note}".removesuffix("; "))
        self.sent, self.seen = self.sent + len(doubtful), self.seen + len(verdicts)
        return verdicts


def band(first: Sequence[Verdict], wanted: Sequence[bool], error: float = 0.05) -> tuple[float, float]:
    """Band outside which a judge's answers are seldom wrong: at most a share `error` below it, and above it.

    It holds the place where the judge's answer turns, so it is right for scores that grow with yes and for such that
    fall, and wherever the judge has put its own threshold.

    Parameters
    ----------
    first
        The cheap judge's verdicts. Those without a score or a clear answer are left out: they go on to the costly one.
    wanted
        Whether the costly judge, or a person, has said that the same pictures still show the thing.
    error
        Largest share wrong on either side, among those pictures; how it is among others, others tell.

    Returns
    -------
    tuple
        Ends, both in the band, infinite where nothing is left on a side; one point between where there is no doubt.
    """
    if len(first) != len(wanted) or len(first) < 2 or len(set(map(bool, wanted))) < 2:
        raise refuse("wanted", "hold a yes and a no, one a verdict", f"{len(wanted)} of {len(first)}", "Judge some.")
    if not 0 <= error < 0.5:
        raise refuse("error", "lie in 0…0.5", error, "0.05 is one in twenty.")
    kept = [
        (one.score, one.answer == "yes", bool(good))
        for one, good in zip(first, wanted, strict=True)
        if one.score is not None and _decided(one) and math.isfinite(one.score)
    ]
    kept.sort(key=lambda row: row[0])
    if len({yes for _, yes, _ in kept}) < 2:
        raise refuse("first", "say yes of some pictures and no of others, with scores", "one answer", "Judge others.")
    x, yes, good = (np.array(column) for column in zip(*kept, strict=True))
    wrong, count = yes != good, np.arange(1, len(x) + 1)
    below = np.concatenate([[0.0], np.cumsum(wrong) / count])  # share wrong among the first n
    above = np.concatenate([(np.cumsum(wrong[::-1]) / count)[::-1], [0.0]])  # from n on
    cuts = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])  # between the n-th and the next
    apart = np.concatenate([[True], x[1:] > x[:-1], [True]])  # equal scores cannot be parted
    turns = np.flatnonzero(np.diff(yes)) + 1  # the answer before is another one than behind
    low = cuts[max(n for n in range(turns[0] + 1) if below[n] <= error and apart[n])]
    high = cuts[min(n for n in range(turns[-1], len(x) + 1) if above[n] <= error and apart[n])]
    return float(low), float(high)


def _decided(verdict: Verdict) -> bool:
    return verdict.answer in ("yes", "no") and verdict.score is not None and not math.isnan(verdict.score)
