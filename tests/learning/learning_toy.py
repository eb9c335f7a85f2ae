"""A linear autoencoder with a data-dependent start, a counter and a constraint: all that a `Trainable` can have.

Run as a program, it trains one slowly into a folder, to be interrupted: ``learning_toy.py OUT OPTIMISER``.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from monoseme.core.files import read_json
from monoseme.core.rows import ArrayRows, Batch, RowSource
from monoseme.core.seeds import generator
from monoseme.learning import Schedule, TrainConfig, read_log, train, without_clock
from monoseme.learning.checkpoint import Checkpoint, load_checkpoint

CONFIG = TrainConfig(steps=30, batch_size=16, lr=0.01, log_every=4, checkpoint_every=10)


class Toy:
    def __init__(self, d_in: int = 8, width: int = 4, seed: int = 0, pause: float = 0.0) -> None:
        self.weight = nn.Parameter(torch.randn(width, d_in, generator=generator(seed, "weight")))
        self.bias = nn.Parameter(torch.zeros(d_in))
        self.counter = torch.zeros(width, dtype=torch.int64)
        self.mean = torch.zeros(d_in)
        self.begun, self.finished, self.pause = 0, 0, pause

    def parameters(self) -> list[nn.Parameter]:
        return [self.weight, self.bias]

    def state(self) -> dict[str, Tensor]:
        return {"weight": self.weight.detach(), "bias": self.bias.detach(), "counter": self.counter, "mean": self.mean}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def begin(self, rows: RowSource) -> None:
        self.begun += 1
        self.mean.copy_(rows.moments.mean)

    def loss(self, x: Tensor, step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        code = torch.relu((x - self.mean) @ self.weight.T)
        self.counter += (code > 0).sum(dim=0)
        error = (code @ self.weight + self.bias + self.mean - x).square().mean()
        return error, {"l0": (code > 0).float().sum(dim=1).mean(), "asked": float(step)}

    def before_step(self, step: int) -> None:
        pass

    def after_step(self, step: int) -> None:
        self.weight.div_(self.weight.norm(dim=1, keepdim=True))
        if self.pause:
            time.sleep(self.pause)

    def finish(self) -> None:
        self.finished += 1
        self.weight.mul_(2.0)


class SignalAt(Toy):
    def __init__(self, step: int, signum: int) -> None:
        super().__init__()
        self.at, self.signum = step, signum

    def loss(self, x, step):
        if step == self.at:
            os.kill(os.getpid(), self.signum)
        return super().loss(x, step)


class PoisonedRows(ArrayRows):
    """Clean when looked at as a whole; one bad number in every batch from a step on."""

    def __init__(self, step: int, value: float = float("nan")) -> None:
        super().__init__(toy_rows().x)
        self.from_step, self.value = step, value

    def batch(self, step: int, size: int, seed: int) -> Batch:
        batch = super().batch(step, size, seed)
        if step >= self.from_step:
            batch.x[2, 3] = self.value
        return Batch(batch.x, batch.sample, batch.sample + 1000)


def checkpoint_of(out: Path) -> Checkpoint:
    found = load_checkpoint(out / "checkpoint", read_json(out / "checkpoint" / "checkpoint.json")["run"])
    assert found is not None
    return found


def assert_same_run(out: Path, straight: Path) -> None:
    """Weights, counters, optimiser, log: the same bits."""
    one, other = checkpoint_of(out), checkpoint_of(straight)
    assert (one.step, one.finished) == (other.step, other.finished)
    torch.testing.assert_close(one.objects, other.objects, rtol=0, atol=0)
    torch.testing.assert_close(one.optimisers, other.optimisers, rtol=0, atol=0)
    assert without_clock(read_log(out / "log.jsonl")) == without_clock(read_log(straight / "log.jsonl"))


def assert_tidy(out: Path) -> None:
    assert {path.name for path in out.iterdir()} == {".lock", "checkpoint", "log.jsonl"}
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"checkpoint.json", "tensors.safetensors"}


def toy_rows(n: int = 300, d_in: int = 8) -> ArrayRows:
    return ArrayRows(torch.randn(n, d_in, generator=generator(0, "rows")))


def long_config(optimiser: str) -> TrainConfig:
    """200 steps; `checkpoint_every` and `log_every` share no rhythm, so a kill falls between them."""
    schedule = Schedule(warmup=20, decay="cosine", floor=0.1)
    return TrainConfig(
        steps=200,
        batch_size=32,
        lr=0.01,
        optimiser="muon" if optimiser == "muon" else "adam",
        schedule=schedule,
        clip=1.0,
        log_every=3,
        checkpoint_every=7,
    )


if __name__ == "__main__":
    train(Toy(pause=0.02), toy_rows(), config=long_config(sys.argv[2]), out=Path(sys.argv[1]))
