"""How the weight of the penalty is held: fixed, switched on above a target L0, or steered towards it.

A control is three pure functions of one number, the logarithm of λ, which the objective keeps and saves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monoseme.core.errors import refuse

__all__ = ["Control", "make_control"]

RATE = 0.01  # of the integral term, in log λ a step, at a relative error of one
GAIN = 1.0  # of the proportional term, in log λ: without it λ swings, because thresholds follow it late
LOW, HIGH = math.log(1e-8), math.log(1e4)


@dataclass(frozen=True)
class Control:
    """What λ is at every step.

    ``"fixed"``
        λ as given.
    ``"above"``
        λ on batches with more than `target` active blocks a row, 0 on the others (arXiv 2606.25234, App. D).
    ``"dual"``
        Dual ascent: log λ rises by `RATE` times the relative excess of L0 over `target`, clipped to ±1, so that λ
        becomes the price of a block at which the target is what the featurizer can afford.
    """

    kind: str
    target: float | None

    def weight(self, log_lam: float, l0: float) -> float:
        """λ for a batch with this L0."""
        if self.kind == "above" and self._excess(l0) <= 0:
            return 0.0
        return math.exp(log_lam + GAIN * self._excess(l0)) if self.kind == "dual" else math.exp(log_lam)

    def next(self, log_lam: float, l0: float) -> float:
        """Return log λ after a batch with this L0."""
        if self.kind != "dual":
            return log_lam
        return max(LOW, min(HIGH, log_lam + RATE * self._excess(l0)))

    def _excess(self, l0: float) -> float:
        """Relative excess over the target, clipped."""
        return 0.0 if self.target is None else max(-1.0, min(1.0, (l0 - self.target) / self.target))


def make_control(kind: str, target: float | None) -> Control:
    """Check and make a control."""
    if kind not in ("fixed", "above", "dual"):
        raise refuse("control", "be 'fixed', 'above' or 'dual'", repr(kind), "See featurizers.control.")
    if kind != "fixed" and target is None:
        raise refuse("target_l0", "be given to a control that aims at it", "None", "Say how many blocks a row.")
    return Control(kind, target)
