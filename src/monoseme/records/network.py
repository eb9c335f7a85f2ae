"""An image network as its page shows it: matrices, activations, names of weights, and what became of moved ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monoseme.core.errors import refuse
from monoseme.records.run import OutcomeGroup

__all__ = ["MovedWeight", "NetworkView", "network_json"]

MOST = 60_000  # weights on one page


@dataclass(frozen=True)
class MovedWeight:
    """A weight (layer, to, from) that was moved by `delta`, what that changed (pixel RMS), and the judge's answer."""

    entry: tuple[int, int, int]
    delta: float
    change: float
    answer: str


@dataclass(frozen=True)
class NetworkView:
    """What one page shows.

    Attributes
    ----------
    title
        Heading.
    activations
        Names for the neurons of every hidden layer; the output is linear.
    weights
        Every weight that is not zero: layer, to, from, value.
    outputs
        1 (ink) or 3 (hue, saturation, brightness).
    labels
        What weights are known to do.
    moved
        Weights that were moved and judged.
    outcomes, facts, notes
        Numbers; how it was made; what decides whether to believe it.
    """

    title: str
    activations: Sequence[Sequence[str]]
    weights: Sequence[tuple[int, int, int, float]]
    outputs: int
    labels: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    moved: Sequence[MovedWeight] = ()
    outcomes: tuple[OutcomeGroup, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < len(self.weights) <= MOST:
            raise refuse("weights", f"be 1 to {MOST:,}", len(self.weights), "Prune it, or look at a smaller one.")
        if not all(math.isfinite(w) for *_, w in self.weights):
            raise refuse("weights", "be finite", "NaN or infinity", "Look at the fit.")


def network_json(view: NetworkView) -> dict[str, Any]:
    """What the page's script needs, as plain JSON values; weights keep all their digits."""
    return {
        "activations": [list(names) for names in view.activations],
        "outputs": view.outputs,
        "weights": [list(weight) for weight in view.weights],
        "labels": [[*entry, name] for entry, name in sorted(view.labels.items())],
        "moved": [[*one.entry, one.delta, float(f"{one.change:.4g}"), one.answer] for one in view.moved],
    }
