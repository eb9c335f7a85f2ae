"""How far it is: on a terminal one line rewritten, elsewhere a plain line every few seconds. All of it on stderr."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType

from monoseme import learning, store

__all__ = ["Ticker", "of_fit", "of_harvest", "seconds"]

EVERY = {True: 0.2, False: 5.0}  # seconds between two lines: on a terminal, elsewhere


class Ticker:
    """Shows one line at a time; what it shows last stays. Use it in a ``with``."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        self.live = self.stream.isatty()
        self.last, self.width = float("-inf"), 0

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Let the line stand, so that something else can be printed below it."""
        if self.live and self.width:
            self.stream.write("\n")
            self.stream.flush()
        self.last, self.width = float("-inf"), 0

    def show(self, line: str, final: bool = False) -> None:
        """Show a line, unless the last one is too recent; the final one always."""
        now = time.monotonic()
        if now - self.last < EVERY[self.live] and not final:
            return
        self.last = now
        if self.live:
            line = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps could not be taken back
            self.stream.write("\r" + line.ljust(self.width))
            self.width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()


def of_harvest(ticker: Ticker, prefix: str = "") -> Callable[[store.Progress], None]:
    """What `harvest` calls as it goes."""

    def tell(p: store.Progress) -> None:
        line = f"{prefix}{p.samples:,} of {p.total:,} samples, {p.rows_per_s:,.0f} rows/s, {seconds(p.eta_s)} left"
        ticker.show(line, final=p.samples == p.total)

    return tell


def of_fit(ticker: Ticker, prefix: str = "") -> Callable[[learning.Progress], None]:
    """What `fit` calls as it goes."""

    def tell(p: learning.Progress) -> None:
        numbers = next(iter(p.numbers.values()))
        shown = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
        line = f"{prefix}step {p.step:,} of {p.steps:,}, {p.rows_per_s:,.0f} rows/s, {seconds(p.eta_s)} left: {shown}"
        ticker.show(line, final=p.step == p.steps)

    return tell


def seconds(number: float) -> str:
    """Time as a person says it.

    Examples
    --------
    >>> seconds(7.4), seconds(192), seconds(7260)
    ('7 s', '3 min 12 s', '2 h 1 min')
    """
    whole = round(number)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
