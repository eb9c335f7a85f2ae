"""The one training loop: several objects, one pass over the rows, nothing lost when it stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, overload

from monoseme.core.errors import refuse
from monoseme.core.files import only_writer
from monoseme.core.rows import RowSource
from monoseme.learning.config import TrainConfig
from monoseme.learning.history import History, Progress
from monoseme.learning.interrupt import catch_signals
from monoseme.learning.run import Run
from monoseme.learning.trainable import Trainable

__all__ = ["train"]

ONLY = "only"  # the name, in checkpoint and log, of an object that came without one


@overload
def train(
    objects: Trainable,
    rows: RowSource,
    *,
    config: TrainConfig,
    out: Path | None = None,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
    about: Mapping[str, Any] | None = None,
    until: Callable[[int], bool] | None = None,
) -> History: ...
@overload
def train(
    objects: Mapping[str, Trainable],
    rows: RowSource,
    *,
    config: TrainConfig,
    out: Path | None = None,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
    about: Mapping[str, Any] | None = None,
    until: Callable[[int], bool] | None = None,
) -> dict[str, History]: ...
def train(
    objects: Mapping[str, Trainable] | Trainable,
    rows: RowSource,
    *,
    config: TrainConfig,
    out: Path | None = None,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
    about: Mapping[str, Any] | None = None,
    until: Callable[[int], bool] | None = None,
) -> History | dict[str, History]:
    """Train one or several objects, in place, from one pass over `rows`.

    Each batch is read once and shown to every object; each object has its own optimiser and is trained exactly as it
    would be alone. No global random state is read or moved.

    Parameters
    ----------
    objects
        One `Trainable`, or several by name.
    rows
        Where the batches come from.
    config
        Settings of the run.
    out
        Folder for ``log.jsonl`` and ``checkpoint/``; ``None`` writes nothing. One run at a time may hold it.
    resume
        Go on from the checkpoint in `out` when there is one, to the same bits an uninterrupted run gives; a finished
        run is loaded and returned. ``False`` starts over and replaces what is there.
    progress
        Called at every logged step.
    about
        Plain JSON values that must be the same for a run to be resumed, such as the objects' own settings.
    until
        Asked with the number of steps done after each of them; true ends the run there, as finished. Only the objects'
        state may decide it, or a resumed run ends elsewhere.

    Returns
    -------
    History or dict of History
        One for each object.

    Raises
    ------
    UserError
        Too few rows, a row, loss or gradient that is not finite (nothing is stepped), a checkpoint of another run.
    Interrupted
        After SIGINT or SIGTERM: the current step was finished and a checkpoint written.
    """
    single = not isinstance(objects, Mapping)
    named = dict(objects) if isinstance(objects, Mapping) else {ONLY: objects}
    if not named:
        raise refuse("objects", "name at least one object", "none", "Pass one Trainable, or several by name.")
    if config.batch_size > len(rows):
        raise refuse(
            "batch_size",
            f"lie in 1..{len(rows)}, the number of rows",
            config.batch_size,
            "Lower it, or bring more rows.",
        )
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(only_writer(Path(out)))
        stop = stack.enter_context(catch_signals())
        run = Run(named, rows, config, None if out is None else Path(out), about or {})
        run.open(resume)
        with closing(run.log):
            run.go(stop, progress, until)
    return run.history(ONLY) if single else {name: run.history(name) for name in named}
