"""SIGINT and SIGTERM become a request to stop after the current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Interrupted", "StopRequest", "catch_signals"]


class Interrupted(SystemExit):
    """A signal stopped the run after a whole step. The process exits with 128 + signal number unless it is caught.

    Attributes
    ----------
    signum, step
        The signal; the number of steps done.
    checkpoint
        Folder from which the same call goes on; ``None`` when the run wrote nothing.
    """

    def __init__(self, signum: int, step: int, checkpoint: Path | None) -> None:
        super().__init__(128 + signum)
        self.signum, self.step, self.checkpoint = signum, step, checkpoint

    def __str__(self) -> str:
        """Say what a notebook shows instead of a bare exit code."""
        if self.checkpoint is None:
            return f"stopped after step {self.step:,}; nothing was kept, because there is no out"
        return (
            f"stopped after step {self.step:,}; its checkpoint is {self.checkpoint}; the same call goes on from there"
        )


@dataclass
class StopRequest:
    """Which signal came, if any."""

    signum: int | None = None


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM instead of dying; put the old handlers back after. A no-op outside the main thread."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(signum: int, _frame: object) -> None:
        request.signum = signum

    # None stands for a handler that was not installed from Python, which cannot be put back: leave such a signal alone
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not None]
    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
