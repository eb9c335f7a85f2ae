"""Handing trials to an executor, and waiting for them: the part of a sweep that knows about futures and signals."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import InUse, only_writer
from monoseme.learning.interrupt import StopRequest
from monoseme.learning.points import Trial
from monoseme.learning.trial import DONE, Answer, Order, failures, note_failure, perform

__all__ = ["Here", "Job", "Round", "Submits", "SweepProgress"]

PAUSE = 0.01, 0.5  # seconds between two looks at the futures: after news, and when there has been none for long
Job = tuple[Trial, Order]


@runtime_checkable
class Submits(Protocol):
    """All that is asked of an executor. A future needs `done` and `result`, and may have `cancel`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin ``fn(*args)`` and return its future."""
        ...


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is: trials with a result of `total`, failed ones among them, and the trial that ended last."""

    finished: int
    failed: int
    total: int
    trial: Trial


class Here:
    """An executor of no workers: what is submitted is done at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Do it."""
        future: Future[Any] = Future()
        future.set_result(fn(*args))
        return future


class Round:
    """Trials that wait, run, or are another process's, and how many have ended."""

    def __init__(self, orders: list[Job], executor: Submits, progress: Callable[[SweepProgress], None] | None) -> None:
        self.executor, self.progress, self.total = executor, progress, len(orders)
        self.running: list[tuple[Any, Job]] = []
        self.elsewhere: list[Job] = []
        self.queue = deque(job for job in orders if not (job[1].folder / DONE).exists())
        self.finished, self.failed = self.total - len(self.queue), 0
        self.signum: int | None = None

    def go(self, stop: StopRequest) -> int | None:
        """Run all; return the signal that cut it short, if one did."""
        pause = PAUSE[0]
        try:
            while self.queue or self.running or self.elsewhere:
                self.submit(stop)
                news = self.collect()
                self.signum = self.signum or stop.signum
                if self.signum is not None:
                    stop.signum = None  # the next one does not wait
                    self.wind_down(stop)
                    return self.signum
                if not news:
                    pause = min(1.5 * pause, PAUSE[1])
                    time.sleep(pause)
                    self.look_elsewhere()
                else:
                    pause = PAUSE[0]
        except BaseException:
            self.cancel()
            raise
        return None

    def submit(self, stop: StopRequest) -> None:
        """Hand over what waits: all at once, or one by one where this process does it itself."""
        while self.queue and stop.signum is None and not (self.running and isinstance(self.executor, Here)):
            job = self.queue.popleft()
            try:
                self.running.append((self.executor.submit(perform, job[1]), job))
            except BrokenExecutor as error:
                raise _dead(error) from None

    def collect(self) -> bool:
        """Take the answers that have come; whether there were any."""
        ended: list[tuple[Any, Job]] = []
        running: list[tuple[Any, Job]] = []
        for pair in self.running:
            (ended if pair[0].done() else running).append(pair)
        self.running = running
        for future, job in ended:
            answer = self.answer(future, job[1])
            if answer is None or answer.status == "stopped":
                self.signum = self.signum or (answer.signum if answer else None)
            elif answer.status == "busy":
                self.elsewhere.append(job)
            else:
                self.tell(job[0], answer.status == "failed")
        return bool(ended)

    def answer(self, future: Any, order: Order) -> Answer | None:
        """What a worker says; ``None`` of a trial that was cancelled before it began."""
        try:
            return future.result()
        except CancelledError:
            return None
        except (UserError, OSError):
            raise
        except Exception as error:
            if self.signum is not None:  # it was told to stop
                return None
            if isinstance(error, BrokenExecutor):
                raise _dead(error) from None
            # what a cluster says of a job it lost: this trial failed, others need not
            with only_writer(order.folder):
                note_failure(order.folder, error)
            return Answer("failed")

    def look_elsewhere(self) -> None:
        """Of the trials that other processes had: which ended, and which were let go unfinished and are ours now."""
        left = []
        for trial, order in self.elsewhere:
            failed = failures(order.folder) > order.failed_before
            if failed or (order.folder / DONE).exists():
                self.tell(trial, failed)
            elif _free(order.folder):
                self.queue.append((trial, order))
            else:
                left.append((trial, order))
        self.elsewhere = left

    def tell(self, trial: Trial, failed: bool) -> None:
        """Count a trial that ended."""
        self.finished, self.failed = self.finished + 1, self.failed + failed
        if self.progress is not None:
            self.progress(SweepProgress(self.finished, self.failed, self.total, trial))

    def cancel(self) -> None:
        """Take back what has not begun, and ask workers that can be asked to stop."""
        for future, _ in self.running:
            if hasattr(future, "cancel"):
                future.cancel()
        self.interrupt()

    def interrupt(self) -> None:
        """Ask the workers to stop what they are at, where they can be asked."""
        if hasattr(self.executor, "interrupt"):
            self.executor.interrupt()  # pyright: ignore[reportAttributeAccessIssue]

    def wind_down(self, stop: StopRequest) -> None:
        """Wait for what runs and cannot be stopped; a second signal does not wait."""
        self.cancel()
        while self.running and stop.signum is None:
            self.collect()
            time.sleep(PAUSE[1] / 2)
            self.interrupt()  # again: a pool hands its workers one trial in advance, which cannot be taken back


def _dead(error: BrokenExecutor) -> UserError:
    fix = "A worker was killed, perhaps for its memory: use fewer. The same call goes on with what is left."
    return refuse("executor", "keep its workers alive", f"{type(error).__name__} ({error})", fix)


def _free(folder: Path) -> bool:
    try:
        with only_writer(folder):
            return True
    except InUse:
        return False
