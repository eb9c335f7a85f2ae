"""Two judges in a row: the cheap one decides where it is sure, the costly one is asked in the doubtful band between."""

from __future__ import annotations

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

    batch = 32

    def __init__(self, first: Judge, second: Judge, low: float, high: float) -> None:
        if not low <= high:  # NaN too
            raise refuse("low and high", "be ends of a band", (low, high), "band(...) finds them.")
        self.first, self.second, self.low, self.high, self.sent, self.seen = first, second, low, high, 0, 0
        ends = {"low": round(low, 9), "high": round(high, 9)}
        self.about: Mapping[str, Any] = {
            "judge": "cascade",
            **ends,
            "first": dict(first.about),
            "second": dict(second.about),
        }

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """Verdicts; ``sent`` of ``seen`` pictures went on to the second judge so far."""
        verdicts = self.first.judge(pictures)
        doubtful = [
            i
            for i, one in enumerate(verdicts)
            if one.score is None or one.answer in ("invalid", "unsure") or self.low <= one.score <= self.high
        ]
        for start in range(0, len(doubtful), self.second.batch):
            part = doubtful[start : start + self.second.batch]
            for i, one in zip(part, self.second.judge(pictures[torch.tensor(part)]), strict=True):
                verdicts[i] = Verdict(one.answer, one.score, f"second judge; {one.note}".removesuffix("; "))
        self.sent, self.seen = self.sent + len(doubtful), self.seen + len(verdicts)
        return verdicts


def band(scores: Sequence[float], wanted: Sequence[bool], error: float = 0.05) -> tuple[float, float]:
    """Band of a judge whose higher scores mean yes: below it at most a share `error` of yes, above it of no.

    Parameters
    ----------
    scores, wanted
        Of pictures of which the costly judge, or a person, has said whether they still show the thing.
    error
        Largest share wrong on either side, among those pictures.

    Returns
    -------
    tuple
        Ends, both in the band; low above high never: with no doubt it is one point between.
    """
    if len(scores) != len(wanted) or len(scores) < 2 or len(set(map(bool, wanted))) < 2:
        raise refuse("wanted", "hold a yes and a no, one a score", f"{len(wanted)} of {len(scores)}", "Judge some.")
    if not 0 <= error < 0.5:
        raise refuse("error", "lie in 0…0.5", error, "0.05 is one in twenty.")
    order = np.argsort(np.asarray(scores, dtype=np.float64), kind="stable")
    x, yes = np.asarray(scores, dtype=np.float64)[order], np.asarray(wanted, dtype=bool)[order]
    if not np.isfinite(x).all():
        raise refuse("scores", "be finite", "NaN or infinity", "Leave those pictures out.")
    below = np.concatenate([[0.0], np.cumsum(yes) / np.arange(1, len(x) + 1)])  # share of yes among the first n
    above = np.concatenate([np.cumsum(~yes[::-1])[::-1] / np.arange(len(x), 0, -1), [0.0]])  # of no from n on
    cuts = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])  # between the n-th and the next
    apart = np.concatenate([[True], x[1:] > x[:-1], [True]])  # equal scores cannot be parted
    low = float(cuts[max(n for n in range(len(x) + 1) if below[n] <= error and apart[n])])
    high = float(cuts[min(n for n in range(len(x) + 1) if above[n] <= error and apart[n])])
    return (low, high) if low <= high else ((low + high) / 2, (low + high) / 2)
