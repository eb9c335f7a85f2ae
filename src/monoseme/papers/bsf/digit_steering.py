"""Steering a small diffusion model of digits: one attribute moves, read by moments; what else moves is the price.

A stand-in for SDXL. The model learns digits with a planted rotation, thickness and hue. Blocks, an SAE's latents and
random directions push at the same hook in the same steps, each as far as moves the target by the same amount; then the
other attributes are compared. Unit and direction are chosen on other noises than those judged (`walked_digits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.files import write_tensors
from monoseme.core.rows import ArrayRows, RowSource
from monoseme.core.seeds import generator, rng
from monoseme.featurizers import Featurizer
from monoseme.learning import Schedule, TrainConfig, train
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.diffusion import UNet, denoising_loss, sample_pictures
from monoseme.models.state import read_state
from monoseme.steering import Direction, steer
from monoseme.worlds.digits import DIGITS, digits, read_digits

__all__ = [
    "ATTRIBUTES",
    "HOOK",
    "Denoising",
    "Way",
    "change",
    "foretelling",
    "harvested",
    "mean_codes",
    "moved",
    "opened",
    "pictures",
    "push",
    "read",
    "targets",
    "trained",
]

SIDE, CHANNELS, HOOK, WEIGHTS = 16, 32, "mid1", "weights.safetensors"
STEPS, STEERED = 16, range(10)  # of the sampler; those in which it is steered
ATTRIBUTES = ("rotation", "thickness", "hue")


class Denoising:
    """A U-Net and its loss on rows (picture in -1…1, label), as the training loop wants them."""

    def __init__(self, net: UNet, side: int, seed: int) -> None:
        self.net, self.side, self.seed = net, side, seed

    def parameters(self) -> list[nn.Parameter]:
        """All of them."""
        return list(self.net.parameters())

    def state(self) -> dict[str, Tensor]:
        """Weights."""
        return {name: tensor.detach() for name, tensor in self.net.state_dict().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        self.net.load_state_dict(dict(state))

    def begin(self, rows: RowSource) -> None:
        """Nothing depends on the data."""

    def loss(self, x: Float[Tensor, "n c"], step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Error of v."""
        pictures = x[:, :-1].reshape(-1, 3, self.side, self.side)
        return denoising_loss(self.net, pictures, x[:, -1].long(), generator(self.seed, "denoising", step)), {}

    def before_step(self, step: int) -> None:
        """Nothing is constrained."""

    def after_step(self, step: int) -> None:
        """Nothing is constrained."""

    def finish(self) -> None:
        """Nothing is left to do."""


def trained(out: Path, steps: int = 3000, samples: int = 20_000, seed: int = 0) -> HookedModel:
    """Train the model; a stopped run goes on."""
    made = digits(samples, SIDE, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = UNet(CHANNELS, 10)
    x = torch.from_numpy(made.x).movedim(-1, 1).flatten(1) * 2 - 1
    rows = ArrayRows(torch.cat([x, torch.from_numpy(made.digit).float()[:, None]], 1))
    config = TrainConfig(steps, batch_size=128, lr=2e-3, schedule=Schedule(warmup=100, decay="cosine"), clip=1.0)
    train(Denoising(net, SIDE, seed), rows, config=config, out=out)
    write_tensors(out / WEIGHTS, {name: tensor.detach() for name, tensor in net.state_dict().items()})
    return _hooked(net)


def opened(out: Path) -> HookedModel:
    """The model that `trained` left in `out`: many processes may read it at once."""
    net = UNet(CHANNELS, 10)
    net.load_state_dict(read_state(out / WEIGHTS))
    return _hooked(net)


def _hooked(net: UNet) -> HookedModel:
    return HookedModel(net.eval(), ModelFacts("digit-diffusion"))


def labels(n: int, seed: int) -> Int[Tensor, " n"]:
    """Digits in turn, in a drawn order."""
    return torch.from_numpy(np.array(DIGITS)[rng(seed, "labels").permutation(n) % len(DIGITS)])


def pictures(model: HookedModel, n: int, seed: int) -> Float[Tensor, "n side side 3"]:
    """Pictures from noise."""
    return sample_pictures(model, labels(n, seed), SIDE, steps=STEPS, seed=seed)


def read(made: Float[Tensor, "n side side 3"], seed: int) -> dict[str, Float64[np.ndarray, " n"]]:
    """Attributes of what `pictures` made of this seed."""
    return read_digits(made.numpy().astype(np.float32), labels(len(made), seed).numpy())


def harvested(model: HookedModel, n: int, seed: int) -> tuple[Float[Tensor, "n s T d"], Float[Tensor, "n side side 3"]]:
    """Activations at the hook in every steered step, and the pictures they ended in."""
    kept: list[Tensor] = []

    def keep(tokens: Tensor) -> Tensor:
        kept.append(tokens.detach().clone())
        return tokens

    with model.edit(HOOK, keep):
        made = pictures(model, n, seed)
    return torch.stack([kept[i] for i in STEERED], 1), made


@dataclass(frozen=True, eq=False)
class Way:
    """A way to move the pictures: ``moves(strength)`` is what `steer` is to do in the steered steps.

    Attributes
    ----------
    name, unit
        How, and of which block or latent (-1: none).
    moves
        Strength → arguments of `steer` after the hook.
    r2
        With which the unit's mean code foretells the attribute (NaN: not chosen by it).
    """

    name: str
    unit: int
    moves: Callable[[float], dict[str, Any]]
    r2: float = float("nan")


def push(name: str, vector: Float[Tensor, " d"], unit: int = -1, r2: float = float("nan")) -> Way:
    """Add a direction of norm 1, times the strength, everywhere."""
    one = (vector / vector.norm()).float()
    return Way(name, unit, lambda strength: {"what": Direction(one, strength)}, r2)


def foretelling(
    means: Float64[np.ndarray, "n G b"], wanted: Float64[np.ndarray, "n m"], many: int
) -> list[tuple[int, float, Float64[np.ndarray, " b"]]]:
    """Of the units whose mean codes foretell the attribute best by a ridge fit: number, R², and the code that goes up.

    That code is the covariance with the first column: towards where the attribute is larger.
    """
    wanted = wanted - wanted.mean(0)
    if not np.any(wanted):
        raise refuse(
            "wanted", "vary over pictures", "the same in all", "Train the model longer: it shows no such thing."
        )
    found = []
    for g in range(means.shape[1]):
        z = means[:, g] - means[:, g].mean(0)
        if not np.any(z):
            continue
        ridge = 1e-3 * np.square(z).sum() / z.shape[1] * np.eye(z.shape[1])
        w = np.linalg.solve(z.T @ z + ridge, z.T @ wanted)
        r2 = 1 - np.square(wanted - z @ w).sum() / np.square(wanted).sum()
        found.append((g, float(r2), (z.T @ wanted)[:, 0] / len(z)))
    return sorted(found, key=lambda one: -one[1])[:many]


def mean_codes(f: Featurizer, acts: Float[Tensor, "n s T d"]) -> Float64[np.ndarray, "n G b"]:
    """Mean code of every block in every picture, over steered steps and tokens."""
    return torch.stack([_mean_codes(f, one.flatten(0, 1)) for one in acts]).numpy()


def _mean_codes(f: Featurizer, rows: Float[Tensor, "n d"]) -> Float[Tensor, "G b"]:
    code = f.encode(rows)
    total = torch.zeros(code.n_blocks, code.block_size, dtype=torch.float64)
    return total.index_add_(0, code.indices.long(), code.values.double()) / len(rows)


def targets(values: Mapping[str, Float64[np.ndarray, " n"]], attribute: str) -> Float64[np.ndarray, "n m"]:
    """The attribute as columns of a regression; a hue is a point on a circle, of which the first column counts."""
    one = np.nan_to_num(values[attribute])
    if attribute != "hue":
        return one[:, None]
    return np.stack([np.cos(2 * np.pi * one), np.sin(2 * np.pi * one)], 1)


def change(
    before: Mapping[str, Float64[np.ndarray, " n"]], after: Mapping[str, Float64[np.ndarray, " n"]], attribute: str
) -> Float64[np.ndarray, " n"]:
    """|Change| of an attribute; of a hue the short way around, of a rotation modulo π."""
    away = after[attribute] - before[attribute]
    if attribute == "hue":
        away = (away + 0.5) % 1 - 0.5
    elif attribute == "rotation":
        away = (away + np.pi / 2) % np.pi - np.pi / 2
    return np.abs(away)


def moved(model: HookedModel, way: Way, strength: float, n: int, seed: int) -> Float[Tensor, "n side side 3"]:
    """Pictures of the same noises with the edit."""
    with steer(model, HOOK, **way.moves(strength), steps=STEERED):
        return pictures(model, n, seed)
