"""A finished sweep in a work folder, as rows of numbers: what a recipe reads that does not train itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.learning import SweepResult
from monoseme.learning.numbers import as_outcome

__all__ = ["Row", "finished", "rows"]

Row = dict[str, Any]  # settings, the seed, and numbers; NaN: not known


def finished(work: Path, name: str, command: str) -> SweepResult:
    """One sweep; one that is not there, not finished, or has failures is refused, with the command that makes it."""
    # the message is kept in records, so it names no folder of this machine
    if not (work / name / "sweep.json").is_file():
        raise refuse(
            "work",
            f"hold the finished sweep {name}",
            "none",
            f"Run {command} with OUT = {name} in the work folder of this reproduction.",
        )
    result = SweepResult.load(work / name)
    done = sum(row.status == "done" for row in result.rows)
    if done < len(result.rows):
        got = f"{done} of {len(result.rows)} trials done, {len(result.failures)} failed"
        raise refuse("work", f"hold the finished sweep {name}", got, f"Go on with {command}.")
    return result


def rows(work: Path, name: str, command: str) -> list[Row]:
    """Every trial: its settings, seed and numbers."""
    return [
        {**row.trial.settings, "seed": row.trial.seed}
        | {key: _float(as_outcome(key, value).value) for key, value in row.numbers.items()}
        for row in finished(work, name, command).rows
    ]


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
