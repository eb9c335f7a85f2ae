"""Learning-rate schedules: linear warm-up, then cosine decay or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from monoseme.core.errors import refuse

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """A factor on the learning rate, a pure function of the step.

    Attributes
    ----------
    warmup
        Steps over which the factor rises linearly; the first full step is ``warmup``. 0 for none.
    start
        Share of the peak rate at step 0 of a warm-up, in 0..1; ``None`` rises from zero at the step before, so that
        step 0 has 1 / ``warmup``.
    decay
        ``"constant"``, or ``"cosine"``: half a cosine from 1 at the end of the warm-up towards `floor`.
    floor
        Share of the peak rate at which the cosine ends, in 0..1.
    """

    warmup: int = 0
    decay: Literal["cosine", "constant"] = "constant"
    floor: float = 0.0
    start: float | None = None

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise refuse("warmup", "be 0 or more steps", self.warmup, "Use 0 for no warm-up.")
        if self.decay not in ("cosine", "constant"):
            raise refuse("decay", 'be "cosine" or "constant"', self.decay, "Choose one of the two.")
        if not 0.0 <= self.floor <= 1.0:
            raise refuse("floor", "lie in 0..1, a share of the peak rate", self.floor, "Use 0.1 for a tenth.")
        if self.start is not None and not 0.0 <= self.start <= 1.0:
            raise refuse("start", "lie in 0..1, a share of the peak rate, or be None", self.start, "Use 0.1.")

    def factor(self, step: int, steps: int) -> float:
        """Factor on the learning rate at `step`, counted from 0, of `steps`.

        Examples
        --------
        >>> [Schedule(warmup=4).factor(step, 100) for step in (0, 1, 3, 4, 99)]
        [0.25, 0.5, 1.0, 1.0, 1.0]
        >>> Schedule(decay="cosine", floor=0.1).factor(50, 100)
        0.55
        >>> [Schedule(warmup=4, start=0.5).factor(step, 100) for step in (0, 2, 4)]
        [0.5, 0.75, 1.0]
        """
        if step < self.warmup:
            if self.start is None:
                return (step + 1) / self.warmup
            return self.start + (1.0 - self.start) * step / self.warmup
        if self.decay == "constant":
            return 1.0
        done = (step - self.warmup) / max(steps - self.warmup, 1)
        return self.floor + (1.0 - self.floor) * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
