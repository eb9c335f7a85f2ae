"""The sweep engine: a function × a grid × seeds × any executor. Nothing that is done is done again."""

from __future__ import annotations

import functools
import pickle
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.files import only_writer
from monoseme.learning.driving import Here, Job, Round, Submits, SweepProgress
from monoseme.learning.interrupt import Interrupted, catch_signals
from monoseme.learning.points import trials_of
from monoseme.learning.results import SweepResult
from monoseme.learning.trial import Measure, Order, check_folder, failures

__all__ = ["SweepInterrupted", "sweep"]

TRIALS = "trials"


class SweepInterrupted(Interrupted):
    """A signal stopped the sweep. Finished trials, `step` of `total`, are kept; stopped ones go on where they were."""

    def __init__(self, signum: int, finished: int, total: int, out: Path) -> None:
        super().__init__(signum, finished, out)
        self.total = total

    def __str__(self) -> str:
        """Say what a notebook shows instead of a bare exit code."""
        return f"stopped after {self.step:,} of {self.total:,} trials; the same call goes on with the rest"


def sweep(
    fn: Measure,
    points: Iterable[Mapping[str, Any]],
    out: str | Path,
    *,
    executor: Submits | None = None,
    seeds: Iterable[int] = (0,),
    resume: bool = True,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Call a function at every point of a grid with every seed, keep what it measures, and write one table.

    Parameters
    ----------
    fn
        ``fn(point, folder)``: `point` is the settings, with ``point["seed"]``; `folder` is the trial's own, kept from a
        stopped attempt to the next, so a fit with ``out=folder`` goes on where it was. It returns name → `Outcome`,
        number or text. For worker processes it must be importable: a function of a module, or a `functools.partial`
        of one.
    points
        From `grid`, or any list of settings: plain JSON values by name. A later call may add points.
    out
        Folder of ``trials/``, ``trials.csv``, ``points.csv`` (over seeds) and ``sweep.json``. Several processes may
        run the same sweep there at once: each trial is done by one of them, and all end with the whole table.
    executor
        ``None`` runs one trial after another here. Otherwise anything with `submit`: a pool of threads or processes
        (`process_pool`), or a cluster's. It is left open.
    seeds
        Each point is run with each. Intervals over seeds need at least two.
    resume
        Go on with what is there: finished trials are kept, failed ones are tried once more. ``False`` starts over.
    about
        Plain JSON values that must be the same for results to be kept, such as a version of `fn` or of its data.
        A change of `fn`'s body is not noticed otherwise; a change of its name is.
    progress
        Called whenever a trial has ended.

    Returns
    -------
    SweepResult
        In the order declared, whatever was finished first. Failed trials are in it, each with its error in one line.

    Raises
    ------
    UserError
        Points that are no plain values, a folder that holds other trials, workers that died.
    SweepInterrupted
        After SIGINT or SIGTERM: nothing more is begun, the table so far is written. Trials in threads, and in pools
        other than `process_pool`, are waited for; a second signal does not wait.
    """
    trials, out = trials_of(points, seeds), Path(out)
    identity = {"function": _name(fn), "about": dict(about or {})}
    _check_picklable(fn, executor)
    jobs: list[Job] = []
    for trial in trials:
        folder, whole = out / TRIALS / trial.name, {"point": trial.point, **identity}
        _clear(folder) if not resume else check_folder(folder, whole)
        jobs.append((trial, Order(fn, trial.point, folder, whole, failures(folder))))
    run = Round(jobs, executor or Here(), progress)
    with catch_signals() as stop:
        signum = run.go(stop)
    result = SweepResult.gather(trials, out / TRIALS, identity)
    result.save(out)
    if signum is not None:
        raise SweepInterrupted(signum, sum(row.status != "not run" for row in result.rows), len(trials), out)
    return result


def _name(fn: Any) -> str:
    """The function's name, under any number of partials."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_picklable(fn: Measure, executor: Submits | None) -> None:
    if not isinstance(executor, ProcessPoolExecutor):  # clusters have picklers of their own
        return
    try:
        pickle.dumps(fn)
    except Exception as error:  # of many types
        fix = "Define it at the top of a module, or use threads."
        raise refuse("fn", "be importable by worker processes", f"{_name(fn)} ({error})", fix) from None


def _clear(folder: Path) -> None:
    """Empty a trial's folder, unless another process is at it."""
    if not folder.exists():
        return
    with only_writer(folder):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()
