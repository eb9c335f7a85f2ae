"""One member of a family trained on one task, through the one training loop; and its loss on whole splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from monoseme.core.errors import refuse
from monoseme.core.rows import RowSource
from monoseme.interaction.supervised import Supervised, mean_loss
from monoseme.interaction.tasks import Task
from monoseme.learning import History, Progress, Schedule, TrainConfig, train

__all__ = ["Fitted", "Training", "fit", "split_losses"]


@dataclass(frozen=True)
class Training:
    """How every shape is trained: all alike, on equal data or with equal arithmetic.

    Attributes
    ----------
    amount, per
        How much: passes over the training rows (``"epochs"``), targets seen per parameter of the budget
        (``"parameters"``, for text bytes per parameter), or floating-point operations (``"flops"``, counted as three
        forward passes a row).
    batch_size
        Rows a step.
    lr, weight_decay, warmup, clip
        AdamW; the rate rises over the share `warmup` of the steps and falls to zero along a cosine; gradients longer
        than `clip` are scaled down.
    patience, checks
        Early stopping: the loss on (at most `CHECKED`) validation rows is taken `checks` times, training ends after
        `patience` of them in a row without a new lowest, and the weights of the lowest are kept. ``None``: neither.
    """

    amount: float
    per: Literal["epochs", "parameters", "flops"] = "epochs"
    batch_size: int = 32
    lr: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.05
    clip: float | None = 1.0
    patience: int | None = None
    checks: int = 20

    def __post_init__(self) -> None:
        if not (self.amount > 0 and math.isfinite(self.amount)):
            raise refuse("amount", "be positive", self.amount, "1 epoch, or 20 bytes per parameter, for example.")
        if self.per not in ("epochs", "parameters", "flops"):
            raise refuse("per", 'be "epochs", "parameters" or "flops"', self.per, "Choose one of the three.")
        if not 0 <= self.warmup < 1:
            raise refuse("warmup", "lie in 0..1, a share of the steps", self.warmup, "0.05 is a twentieth.")
        if self.checks < 1 or (self.patience is not None and self.patience < 1):
            raise refuse("patience and checks", "be at least 1", (self.patience, self.checks), "None stops nothing.")

    def steps(self, task: Task, budget: float, flops: float) -> int:
        """Optimiser steps for a shape of a budget, with so many operations in a forward pass of a row; at least one."""
        rows = {
            "epochs": self.amount * len(task.train),
            "parameters": self.amount * budget / task.targets,
            "flops": self.amount / (3 * flops),
        }[self.per]
        return max(1, round(rows / self.batch_size))

    def config(self, steps: int, seed: int) -> TrainConfig:
        """Settings for the training loop."""
        return TrainConfig(
            steps,
            self.batch_size,
            self.lr,
            schedule=Schedule(warmup=round(self.warmup * steps), decay="cosine"),
            weight_decay=self.weight_decay,
            clip=self.clip,
            seed=seed,
            checkpoint_every=max(20, steps // 10),
        )


@dataclass(frozen=True)
class Fitted:
    """A trained module, in evaluation mode, and how it was trained."""

    module: nn.Module
    history: History


def fit(
    module: nn.Module,
    task: Task,
    training: Training,
    steps: int,
    *,
    seed: int = 0,
    out: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Fitted:
    """Train a module in place for `steps` steps (see `Training.steps`); stopped, the same call goes on.

    `seed` is of the order of the rows; that of the first weights is the module's own affair. `about` must be the same
    for a stopped run to go on.
    """
    thing = Supervised(module, task, max(1, steps // training.checks), training.patience)
    config = training.config(steps, seed)
    told = {"training": asdict(training), "task": task.identity(), **(about or {})}
    until = None if training.patience is None else thing.stopped
    history = train(thing, task.train, config=config, out=out, progress=progress, about=told, until=until)
    return Fitted(module.eval(), history)


def split_losses(module: nn.Module, task: Task, splits: tuple[str, ...] = ("validation", "test")) -> dict[str, float]:
    """Mean loss on whole splits, as ``validation_loss`` and the like, in the task's unit; lower is better.

    Of the training rows as many are taken as there are test rows: the first ones.
    """
    found = {}
    for split in splits:
        rows: RowSource = getattr(task, split)
        found[f"{split}_loss"] = mean_loss(module, task, rows, len(task.test) if split == "train" else None)
    return found
