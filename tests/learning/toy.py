"""A linear autoencoder with a data-dependent start, a counter and a constraint: all that a `Trainable` can have.

Run as a program, it trains one slowly into a folder, to be interrupted: ``toy.py OUT OPTIMISER``.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from monoseme.core.rows import ArrayRows, RowSource
from monoseme.core.seeds import generator
from monoseme.learning import Schedule, TrainConfig, train


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

    def after_step(self, step: int) -> None:
        self.weight.div_(self.weight.norm(dim=1, keepdim=True))
        if self.pause:
            time.sleep(self.pause)

    def finish(self) -> None:
        self.finished += 1
        self.weight.mul_(2.0)


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
        checkpoint_every=25,
    )


if __name__ == "__main__":
    train(Toy(pause=0.02), toy_rows(), config=long_config(sys.argv[2]), out=Path(sys.argv[1]))
