"""Train every shape of a budget on one task and measure loss and interaction energies: one resumable sweep.

A trial is a shape with a seed: first weights and the order of rows follow the seed, the data do not.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.interaction.network_energies import Measured, network_energies
from monoseme.interaction.shapes import ShapeRow
from monoseme.interaction.tasks import Task
from monoseme.interaction.training import Training, fit, split_losses
from monoseme.learning import Submits, SweepProgress, SweepResult, sweep
from monoseme.models.families import family

__all__ = ["Plan", "hours", "shape_sweep", "step_seconds", "trial"]


@dataclass(frozen=True)
class Plan:
    """What is the same for all shapes of a sweep.

    Attributes
    ----------
    family
        Name of a family of `models.families`.
    task
        Makes the task; importable, so that worker processes can call it. The same data each time.
    training
        How every shape is trained.
    measured
        How energies are taken.
    sizes
        Of the shapes: those that fit the task.
    rates
        Learning rate of a shape by ``"depth x width"``, where it is not that of `training`.
    """

    family: str
    task: Callable[[], Task]
    training: Training
    measured: Measured = field(default_factory=Measured)
    sizes: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    def rate(self, depth: int, width: int) -> Training:
        """Training of a shape."""
        lr = self.rates.get(f"{depth} x {width}", self.training.lr)
        return Training(**{**asdict(self.training), "lr": lr})


def trial(point: Mapping[str, Any], folder: Path, plan: Plan) -> dict[str, Outcome | float]:
    """Train one shape and measure it. A stopped trial goes on from its checkpoint."""
    start, task = time.process_time(), _task(plan.task)
    kind, training = family(plan.family), plan.rate(point["depth"], point["width"])
    shape = kind.shape(point["depth"], point["width"], **plan.sizes)
    module: nn.Module = kind.module(shape, point["seed"])
    steps = training.steps(task, point["budget"], shape.flops())
    about = {"family": plan.family, "shape": asdict(shape)}  # pyright: ignore[reportArgumentType]
    fitted = fit(module, task, training, steps, seed=point["seed"], out=folder / "fit", about=about)
    found: dict[str, Outcome | float] = dict(split_losses(fitted.module, task, ("train", "validation", "test")))
    trained = time.process_time()
    found |= network_energies(fitted.module, task, plan.measured)
    return {
        **found,
        "parameters": shape.count(),
        "flops": shape.flops(),
        "steps": steps,
        "cpu_seconds_training": trained - start,
        "cpu_seconds_energies": time.process_time() - trained,
    }


@functools.lru_cache(maxsize=2)
def _task(make: Callable[[], Task]) -> Task:
    """Once in a process, however many trials it does."""
    return make()


def shape_sweep(
    plan: Plan,
    rows: Sequence[ShapeRow],
    out: str | Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    executor: Submits | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Run all shapes with all seeds, or what is left of them, and write the tables of `learning.sweep` into `out`.

    `rows` come from `shapes`, of one budget or of several. Executors: any of `learning.sweep`, so processes, Ray or a
    cluster. Read the result with `ShapeTable.from_sweep`.
    """
    if not rows:
        raise refuse("rows", "be at least one shape", "none", "Take them from shapes(family, budget).")
    wrong = [row for row in rows if not isinstance(row.shape, type(rows[0].shape))]
    if wrong:
        raise refuse("rows", "be shapes of one family", type(wrong[0].shape).__name__, "Sweep families apart.")
    points = [{"budget": row.budget, "depth": row.depth, "width": row.width} for row in rows]
    told = {name: value for name, value in asdict(plan).items() if name != "task"}
    about = {**told, "task": plan.task().identity(), "version": 1}
    work = functools.partial(trial, plan=plan)
    return sweep(work, points, out, seeds=seeds, executor=executor, about=about, progress=progress)


def step_seconds(plan: Plan, rows: Sequence[ShapeRow], repeats: int = 3) -> list[float]:
    """Seconds of a training step of every shape, measured here: the least of a few, after one that warms up."""
    task, seconds = _task(plan.task), []
    for row in rows:
        module = family(plan.family).module(row.shape, 0)
        x = task.train.batch(0, plan.training.batch_size, 0).x
        inputs, targets = task.split(x)
        best = float("inf")
        for _ in range(repeats + 1):
            start = time.perf_counter()
            task.losses(module(inputs), targets).mean().backward()
            best = min(best, time.perf_counter() - start)
        seconds.append(best)
    return seconds


def hours(plan: Plan, rows: Sequence[ShapeRow], seeds: int) -> float:
    """Core hours of the training of a sweep, from `step_seconds`; energies come on top."""
    task = _task(plan.task)
    steps = [plan.training.steps(task, row.budget, row.shape.flops()) for row in rows]
    took = step_seconds(plan, rows)
    return seeds * sum(s * t for s, t in zip(steps, took, strict=True)) / 3600
