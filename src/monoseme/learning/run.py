"""The state of a run between its steps, and how a step is taken, logged and kept."""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import check_space, settle_folder
from monoseme.core.rows import RowSource
from monoseme.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from monoseme.learning.checks import bad_row, refuse_bad_gradient, refuse_bad_source
from monoseme.learning.config import TrainConfig
from monoseme.learning.history import History, Progress
from monoseme.learning.interrupt import Interrupted, StopRequest
from monoseme.learning.log import CLOCK, Log
from monoseme.learning.optimisers import ObjectOptimiser
from monoseme.learning.trainable import Trainable

__all__ = ["Run"]

RESERVED = frozenset({"step", "rows", "object", "lr", CLOCK})
Losses = dict[str, tuple[Tensor, Mapping[str, float | Tensor]]]


class Run:
    """Objects, optimisers, log, and how far they are. `open` first, then `go`."""

    def __init__(
        self,
        objects: dict[str, Trainable],
        rows: RowSource,
        config: TrainConfig,
        out: Path | None,
        about: Mapping[str, Any],
    ) -> None:
        self.objects, self.rows, self.config, self.out = objects, rows, config, out
        self.lr = config.rates(objects)
        self.identity: dict[str, Any] = {}
        if out is not None:
            self.identity = {"config": config.identity(), "about": dict(about)}
            self.identity |= {"rows": _digest(rows, config), "objects": _shapes(objects)}
        self.step, self.finished, self.seconds = 0, False, 0.0
        self.checkpoint_step = -1

    def open(self, resume: bool) -> None:
        """Continue from the checkpoint, or begin."""
        if self.out is not None and not resume:
            settle_folder(self.out / "checkpoint")
            shutil.rmtree(self.out / "checkpoint", ignore_errors=True)
        found = None if self.out is None else load_checkpoint(self.out / "checkpoint", self.identity)
        if found is None:
            refuse_bad_source(self.rows)
            for thing in self.objects.values():
                thing.begin(self.rows)
        else:
            if found.objects.keys() != self.objects.keys():
                got = f"one of {', '.join(found.objects) or 'none'}, in {self.out}"
                raise refuse("out", f"hold a checkpoint of {', '.join(self.objects)}", got, "Pass resume=False.")
            self.step, self.finished, self.seconds = found.step, found.finished, found.seconds
            self.checkpoint_step = found.step
            for name, thing in self.objects.items():
                thing.load_state(found.objects[name])
        self.optimisers = {
            name: ObjectOptimiser(
                thing.parameters(),
                self.config.optimiser,
                self.config.weight_decay,
                getattr(thing, "adam_parameters", tuple)(),
            )
            for name, thing in self.objects.items()
        }
        if found is not None:
            for name, optimiser in self.optimisers.items():
                optimiser.load_state(found.optimisers[name])
        if self.out is not None and not self.finished:
            # the previous checkpoint and the next, each with two moments a parameter
            check_space(self.out, 2 * 3 * sum(_bytes(thing.state()) for thing in self.objects.values()))
        self.log = Log(None if self.out is None else self.out / "log.jsonl", self.step)

    def go(
        self,
        stop: StopRequest,
        progress: Callable[[Progress], None] | None,
        until: Callable[[int], bool] | None = None,
    ) -> None:
        """Step to the end, or until told."""
        # as if all sessions had been one
        self.started, self.first = time.perf_counter() - self.seconds, (self.step, self.seconds)
        while not self.ended(until) and stop.signum is None:
            self.take_step(progress)
            if self.step % self.config.checkpoint_every == 0 and self.step < self.config.steps:
                self.save()
        if self.ended(until) and not self.finished:
            with torch.no_grad():
                for thing in self.objects.values():
                    thing.finish()
            self.finished, self.checkpoint_step = True, -1
        self.save()
        if stop.signum is not None:
            raise Interrupted(stop.signum, self.step, None if self.out is None else self.out / "checkpoint")

    def ended(self, until: Callable[[int], bool] | None) -> bool:
        """Whether no step is left to take."""
        if self.finished or self.step == self.config.steps:
            return True
        return until is not None and self.step > 0 and until(self.step)

    def take_step(self, progress: Callable[[Progress], None] | None) -> None:
        """One batch, shown to every object. All are checked before any is changed."""
        batch = self.rows.batch(self.step, self.config.batch_size, self.config.seed)
        if where := bad_row(batch):
            self.save()
            raise refuse(
                "rows", "be finite", f"{where} (step {self.step}, which was not taken)", "Leave that sample out."
            )
        losses = {name: self.gradient(name, batch.x) for name in self.objects}
        factor = self.config.schedule.factor(self.step, self.config.steps)
        for name, thing in self.objects.items():
            self.optimisers[name].step(self.lr[name] * factor)
            with torch.no_grad():
                thing.after_step(self.step)
        self.step += 1
        if self.step in (1, self.config.steps) or self.step % self.config.log_every == 0:
            self.note(losses, factor, progress)

    def gradient(self, name: str, x: Tensor) -> tuple[Tensor, Mapping[str, float | Tensor]]:
        """Loss and numbers of one object, with its clipped gradient in place."""
        optimiser = self.optimisers[name]
        optimiser.zero_grad()
        loss, numbers = self.objects[name].loss(optimiser.place(x), self.step)
        loss.backward()
        with torch.no_grad():
            self.objects[name].before_step(self.step)
        norm = optimiser.gradient_norm()
        refuse_bad_gradient(name, self.step, loss, norm)
        if self.config.clip is not None:
            optimiser.clip(self.config.clip, norm)
        return loss.detach(), numbers

    def note(self, losses: Losses, factor: float, progress: Callable[[Progress], None] | None) -> None:
        """Log the step just taken. Only here are the objects' numbers read from the device."""
        step, seconds = self.first
        elapsed = time.perf_counter() - self.started
        speed = (self.step - step) * self.config.batch_size / max(elapsed - seconds, 1e-9)
        numbers = {name: {"loss": _number(loss)} | _numbers(extra) for name, (loss, extra) in losses.items()}
        for name, values in numbers.items():
            line = {"step": self.step, "rows": self.step * self.config.batch_size, "object": name}
            clock = {"seconds": elapsed, "rows_per_s": speed}
            self.log.write(line | {"lr": self.lr[name] * factor} | values | {CLOCK: clock})
        if progress is not None:
            left = (self.config.steps - self.step) * self.config.batch_size / speed
            progress(Progress(self.step, self.config.steps, speed, left, numbers))

    def save(self) -> None:
        """Write a checkpoint of the present state, unless there is one of it already."""
        if self.step > self.first[0]:
            self.seconds = time.perf_counter() - self.started
        if self.out is None or self.checkpoint_step == self.step:
            return
        self.log.sync()
        objects = {name: thing.state() for name, thing in self.objects.items()}
        optimisers = {name: optimiser.state() for name, optimiser in self.optimisers.items()}
        checkpoint = Checkpoint(self.identity, self.step, self.finished, self.seconds, objects, optimisers)
        save_checkpoint(self.out / "checkpoint", checkpoint)
        self.checkpoint_step = self.step

    def history(self, name: str) -> History:
        """What was logged about one object."""
        lines = tuple(line for line in self.log.lines if line.get("object") == name)
        rows = self.step * self.config.batch_size
        return History(lines, self.step, rows, len(self.rows), self.seconds, self.out)


def _number(value: float | Tensor) -> float | None:
    number = float(value.detach() if isinstance(value, Tensor) else value)
    return number if math.isfinite(number) else None


def _numbers(values: Mapping[str, float | Tensor]) -> dict[str, float | None]:
    if taken := sorted(RESERVED & values.keys()):
        raise refuse("objects", f"keep the log's own names {sorted(RESERVED)} free", taken[0], "Rename that number.")
    return {name: _number(value) for name, value in values.items()}


def _bytes(state: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in state.values())


def _shapes(objects: Mapping[str, Trainable]) -> dict[str, dict[str, str]]:
    """Shape and dtype of every tensor, as text."""
    return {
        name: {key: f"{tensor.dtype} {list(tensor.shape)}" for key, tensor in thing.state().items()}
        for name, thing in objects.items()
    }


def _digest(rows: RowSource, config: TrainConfig) -> dict[str, Any]:
    """Number of rows, and a hash of the first batch: other data is another run."""
    batch = rows.batch(0, config.batch_size, config.seed)
    hashed = hashlib.sha256()
    for tensor in (batch.x, batch.sample, batch.position):
        hashed.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return {"count": len(rows), "d_in": rows.d_in, "first_batch": hashed.hexdigest()}
