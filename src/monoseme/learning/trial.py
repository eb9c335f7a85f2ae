"""One trial in its own folder: run once, kept when it is done, noted when it fails. This is what workers call.

NAME/point.json      what the trial is; another trial's folder is refused
NAME/work/           the function's own; a fit that was stopped goes on from its checkpoint here
NAME/done.json       the numbers, written last and in one step: there is a result exactly when this file is there
NAME/failed.json     the error in one line, with traceback.txt beside it
"""

from __future__ import annotations

import json
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import InUse, atomic_path, only_writer, read_json, write_json
from monoseme.core.files import sweep as remove_leftovers
from monoseme.core.parse import Entry
from monoseme.learning.interrupt import Interrupted
from monoseme.learning.numbers import numbers_of, pack

__all__ = ["Answer", "Order", "check_folder", "failures", "note_failure", "perform", "read_failure"]

POINT, DONE, FAILED, TRACEBACK, WORK = "point.json", "done.json", "failed.json", "traceback.txt", "work"
Measure = Callable[[Mapping[str, Any], Path], Mapping[str, Any]]


@dataclass(frozen=True)
class Order:
    """What travels to a worker.

    Attributes
    ----------
    fn, point, folder
        What to call, with what, and the trial's folder.
    identity
        Plain JSON values that decide the result: the point, the function's name, what the caller says of it.
    failed_before
        How often the trial had failed when this sweep began. Once more since then is a result, not to be repeated.
    """

    fn: Measure
    point: Mapping[str, Any]
    folder: Path
    identity: Mapping[str, Any]
    failed_before: int = 0


@dataclass(frozen=True)
class Answer:
    """How it went. `busy`: another process is at it. `stopped`: by signal `signum`, to go on later."""

    status: Literal["done", "failed", "busy", "stopped"]
    signum: int = 0


class _Stopped(BaseException):
    def __init__(self, signum: int) -> None:
        self.signum = signum


def perform(order: Order) -> Answer:
    """Run a trial, unless it has a result already or another process is running it."""
    try:
        with only_writer(order.folder):
            return _perform(order)
    except InUse:
        return Answer("busy")


def _perform(order: Order) -> Answer:
    folder = order.folder
    remove_leftovers(folder)
    check_folder(folder, order.identity)
    if (folder / DONE).exists():
        return Answer("done")
    if failures(folder) > order.failed_before:
        return Answer("failed")
    if not (folder / POINT).exists():
        write_json(folder / POINT, order.identity)
    (folder / WORK).mkdir(exist_ok=True)
    started = time.perf_counter()
    try:
        with _stoppable():
            numbers = pack(numbers_of(order.fn(dict(order.point), folder / WORK), order.point))
            json.dumps(
                numbers, allow_nan=False
            )  # a value of no JSON kind, deep in a provenance, is the function's fault
    except (_Stopped, Interrupted) as stop:
        return Answer("stopped", stop.signum)
    except KeyboardInterrupt:
        return Answer("stopped", signal.SIGINT)
    except (Exception, SystemExit) as error:
        note_failure(folder, error)
        return Answer("failed")
    write_json(folder / DONE, {"numbers": numbers, "seconds": time.perf_counter() - started})
    for old in (FAILED, TRACEBACK):
        (folder / old).unlink(missing_ok=True)
    return Answer("done")


def check_folder(folder: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another trial, or the same one by another function, and name the difference."""
    if not (folder / POINT).exists():
        return
    there, here = _leaves(read_json(folder / POINT)), _leaves(json.loads(json.dumps(identity)))
    for key in [*there, *(key for key in here if key not in there)]:
        if there.get(key) != here.get(key):
            was, now = there.get(key, "nothing"), here.get(key, "nothing")
            got = f"one with {key} = {was} where this sweep has {now}, in {folder}"
            fix = "Choose another folder, or pass resume=False to start over."
            raise refuse("out", "hold trials of this sweep, or none", got, fix)


def _leaves(value: object, path: str = "") -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {path: value}
    parts = (_leaves(part, f"{path}.{key}" if path else str(key)) for key, part in value.items())
    return {name: leaf for part in parts for name, leaf in part.items()}


def failures(folder: Path) -> int:
    """How often the trial has failed; 0 when it never did."""
    found = read_failure(folder)
    return 0 if found is None else found.get("times", int)


def read_failure(folder: Path) -> Entry | None:
    """What failed.json says. It may vanish between two looks, when another process tried again with success."""
    try:
        return Entry(read_json(folder / FAILED), str(folder / FAILED))
    except UserError:
        if (folder / FAILED).exists():
            raise
        return None


def note_failure(folder: Path, error: BaseException) -> None:
    """Keep the error in one line, and its traceback, beside the trial. Call it only while holding the folder."""
    with atomic_path(folder / TRACEBACK) as temporary:
        text = "".join(traceback.format_exception(error))
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    line = " ".join(f"{type(error).__name__}: {error}".split())
    write_json(folder / FAILED, {"error": line, "times": failures(folder) + 1})


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM end the function at once; a fit inside catches them itself, and leaves a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, _frame: object) -> None:
        raise _Stopped(signum)

    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not None]
    previous = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
