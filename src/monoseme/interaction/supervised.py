"""A module and a task as the training loop wants them: a `Trainable`, with early stopping inside its state."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from monoseme.core.rows import RowSource
from monoseme.interaction.tasks import Task

__all__ = ["CHECKED", "Supervised", "mean_loss"]

CHECKED = 256  # validation rows of a check
AT_ONCE = 64  # rows of an evaluation that are in memory together


@torch.no_grad()
def mean_loss(module: nn.Module, task: Task, rows: RowSource, most: int | None = None) -> float:
    """Mean over (at most so many) rows of the loss, added up in float64. The module's mode is put back after."""
    training, total, count = module.training, 0.0, 0
    like = next(module.parameters())
    most = len(rows) if most is None else min(most, len(rows))
    module.eval()
    for batch in rows.in_order(min(AT_ONCE, most)):
        x = batch.x[: most - count].to(like.device, like.dtype)
        inputs, targets = task.split(x)
        total += float(task.losses(module(inputs), targets).double().sum())
        count += len(x)
        if count == most:
            break
    module.train(training)
    return total / count


class Supervised:
    """Descends on the task's mean loss.

    Parameters
    ----------
    module, task
        What is trained, in place, and on what.
    check_every, patience
        With a patience: steps between two checks on validation rows, and checks in a row without a new lowest loss that
        end the training. The weights of the lowest are put back at the end.
    """

    def __init__(self, module: nn.Module, task: Task, check_every: int = 1, patience: int | None = None) -> None:
        self.module, self.task, self.check_every, self.patience = module.train(), task, check_every, patience
        self.best: dict[str, Tensor] = {}
        if patience is not None:
            self.best = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        self.lowest, self.misses = torch.tensor(float("inf")), torch.tensor(0)

    def parameters(self) -> list[nn.Parameter]:
        """Those of the module."""
        return list(self.module.parameters())

    def state(self) -> dict[str, Tensor]:
        """The module's tensors; with a patience, the best ones so far and what the checks found."""
        found = {f"module.{name}": tensor.detach() for name, tensor in self.module.state_dict().items()}
        if self.patience is None:
            return found
        best = {f"best.{name}": tensor for name, tensor in self.best.items()}
        return {**found, **best, "lowest": self.lowest, "misses": self.misses}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        with torch.no_grad():
            for name, tensor in self.state().items():
                tensor.copy_(state[name])

    def begin(self, rows: RowSource) -> None:
        """Nothing here depends on the data."""

    def loss(self, x: Tensor, step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Mean loss of a batch."""
        inputs, targets = self.task.split(x)
        return self.task.losses(self.module(inputs), targets).mean(), {}

    def before_step(self, step: int) -> None:
        """No constraint."""

    def after_step(self, step: int) -> None:
        """Check, when it is time."""
        if self.patience is None or (step + 1) % self.check_every:
            return
        now = mean_loss(self.module, self.task, self.task.validation, CHECKED)
        if now < float(self.lowest):
            self.lowest.fill_(now)
            self.misses.zero_()
            for name, tensor in self.module.state_dict().items():
                self.best[name].copy_(tensor)
        else:
            self.misses.add_(1)

    def stopped(self, step: int) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and int(self.misses) >= self.patience

    def finish(self) -> None:
        """Put the best weights back, where any were checked."""
        if self.patience is not None and torch.isfinite(self.lowest):
            for name, tensor in self.module.state_dict().items():
                tensor.copy_(self.best[name])
