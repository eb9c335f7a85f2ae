"""What a run tells: live progress, and the history of each object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["History", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far a run is, at a logged step.

    Attributes
    ----------
    step, steps
        Steps done, of so many.
    rows_per_s
        Rows a second since this session began.
    eta_s
        Seconds left at that speed.
    numbers
        Numbers of each object at this step, by its name: ``loss`` and what the object reports.
    """

    step: int
    steps: int
    rows_per_s: float
    eta_s: float
    numbers: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class History:
    """How one object was trained.

    Attributes
    ----------
    lines
        Logged lines: step (1 is the first), rows seen, lr, loss and the object's numbers, measured on that step's batch
        before its update; ``clock`` groups what depends on the machine's speed. A number that is not finite is
        ``None``.
    steps, rows
        Steps done and rows seen, repeats included.
    available
        Distinct rows there were.
    seconds
        Time spent training, all sessions together.
    path
        Folder of the run, when there is one.
    """

    lines: tuple[Mapping[str, Any], ...] = field(repr=False)
    steps: int
    rows: int
    available: int
    seconds: float
    path: Path | None = None

    @property
    def epochs(self) -> float:
        """How often each row was seen, on average: above 1, rows were repeated."""
        return self.rows / self.available

    def series(self, name: str) -> tuple[list[int], list[float | None]]:
        """Steps at which `name` was logged, and its values."""
        lines = [line for line in self.lines if name in line]
        return [line["step"] for line in lines], [line[name] for line in lines]
