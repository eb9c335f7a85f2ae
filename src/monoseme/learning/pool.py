"""Worker processes that a sweep can ask to stop."""

from __future__ import annotations

import contextlib
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

import torch

from monoseme.core.errors import refuse

__all__ = ["process_pool"]


def process_pool(workers: int | None = None) -> ProcessPoolExecutor:
    """Return an executor of fresh processes, for `sweep`: use it in a ``with``.

    The cores are shared out among the workers, so that their thread pools do not wait for one another. A signal to this
    process reaches them too: a fit that runs in one writes its checkpoint.

    Parameters
    ----------
    workers
        How many; as many as there are cores by default.

    Notes
    -----
    Processes are spawned: a program that calls this must be guarded by ``if __name__ == "__main__":``.
    """
    cores = os.cpu_count() or 1
    workers = cores if workers is None else workers
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise refuse("workers", "be a positive whole number", repr(workers), "1 is one process.")
    return _Processes(workers, max(1, cores // workers))


class _Processes(ProcessPoolExecutor):
    def __init__(self, workers: int, threads: int) -> None:
        context = get_context("spawn")
        self._numbers: SimpleQueue[int] = context.SimpleQueue()
        self._pids: list[int] = []
        super().__init__(workers, mp_context=context, initializer=_begin, initargs=(self._numbers, threads))

    def interrupt(self) -> None:
        """Send SIGINT to every worker; an idle one takes no notice."""
        while not self._numbers.empty():
            self._pids.append(self._numbers.get())
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)


def _begin(numbers: SimpleQueue[int], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; a trial listens while it runs
    torch.set_num_threads(threads)
    numbers.put(os.getpid())
