"""How fast a picture drifts as weights move farther: change, and the judge's answers, against the step δ.

The curve is what makes a single δ readable: networks of unlike sizes drift at unlike speed, and cross where none of
their scores says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from monoseme.composition.emc2 import emc2
from monoseme.composition.genome import Genome
from monoseme.composition.judges.protocol import Judge
from monoseme.composition.moves import Delta
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome

__all__ = ["Drift", "drift"]

STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Drift:
    """At one step.

    Attributes
    ----------
    delta
        The step.
    change
        10, 50 and 90 % quantiles over weights of the change of the picture, root mean square of pixels.
    judged
        The same of the judge's score; empty where it gives none.
    score
        Share of yes, with its interval.
    """

    delta: float
    change: tuple[float, float, float]
    judged: tuple[float, float, float] | tuple[()]
    score: Outcome


def drift(
    network: ImageNetwork | Genome,
    judge: Judge,
    deltas: Sequence[float] = STEPS,
    *,
    kind: str = "absolute",
    sample: int | None = 200,
    size: int = 96,
    seed: int = 0,
    out: str | Path | None = None,
) -> list[Drift]:
    """Score a network at several steps; the same weights, in the same direction, at each.

    Parameters
    ----------
    deltas
        Ascending.
    kind
        ``"absolute"``, ``"relative"`` or ``"visible"``, as in `Delta`.
    out
        Folder in which verdicts are kept, one for all steps.
    """
    if not deltas or list(deltas) != sorted(set(deltas)):
        raise refuse("deltas", "ascend", tuple(deltas), f"For example {STEPS}.")
    found = []
    for delta in deltas:
        one = emc2(network, judge, Delta(kind, delta), sample=sample, size=size, seed=seed, out=out)
        change = _quantiles([w.change for w in one.per_weight])
        scores = [w.score for w in one.per_weight if w.score is not None]
        found.append(Drift(delta, change, _quantiles(scores) if scores else (), one.score))
    return found


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = (float(v) for v in np.quantile(values, [0.1, 0.5, 0.9]))
    return low, middle, high
