"""The log of a run: JSON lines, safe against crashes, the same after a resume as without one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path, explain_full_disk

__all__ = ["Log", "read_log", "without_clock"]

CLOCK = "clock"


def read_log(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a log; none when there is no file. A last line cut off by a crash is dropped.

    Raises
    ------
    UserError
        When a line before the last is not one of ours.
    """
    path = Path(path)
    if not path.exists():
        return []
    *whole, _partial = path.read_bytes().split(b"\n")
    lines = []
    for number, raw in enumerate(whole, start=1):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or type(line.get("step")) is not int:
            raise refuse(
                "out", "hold an undamaged log", f"{path}, line {number}", "Delete that line, or choose another folder."
            )
        lines.append(line)
    return lines


def without_clock(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lines without what depends on the machine's speed: equal for equal runs.

    Examples
    --------
    >>> without_clock([{"step": 1, "loss": 0.5, "clock": {"seconds": 0.1, "rows_per_s": 10.0}}])
    [{'step': 1, 'loss': 0.5}]
    """
    return [{key: value for key, value in line.items() if key != CLOCK} for line in lines]


class Log:
    """Lines in memory and, when there is a path, on disk.

    Parameters
    ----------
    path
        File to append to, or ``None``.
    step
        Steps that stand: later lines, written before a crash but after the last checkpoint, are dropped.
    """

    def __init__(self, path: Path | None, step: int) -> None:
        self.lines: list[dict[str, Any]] = []
        self._path, self._file = path, None
        if path is None:
            return
        self.lines = [line for line in read_log(path) if line["step"] <= step]
        kept = "".join(_line(line) for line in self.lines).encode()
        if not path.exists() or path.read_bytes() != kept:
            with atomic_path(path) as temporary:
                temporary.write_bytes(kept)
        # unbuffered: after a full disk nothing is left over that closing would try to write again
        self._file = path.open("ab", buffering=0)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line; it survives the death of the process at once."""
        self.lines.append(dict(line))
        if self._file is not None and self._path is not None:
            with explain_full_disk(self._path):
                rest = _line(line).encode()
                while rest:
                    rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        """Make all lines survive a power cut. Call it before a checkpoint that counts on them."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _line(line: Mapping[str, Any]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"
