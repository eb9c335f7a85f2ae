"""L1 dictionaries on activations of two real models, at three widths, and the same on two controls.

The controls are the model with random weights on the same inputs, and Gaussian rows with the mean and covariance of the
real ones: what is unstable there is the tool's own. Every harvest and fit is kept in the work folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import Featurizer, ReLU, fit, load
from monoseme.models import open_model
from monoseme.store import ActivationStore, Source, TokenPolicy, harvest

__all__ = ["SEEDS", "SETTINGS", "WIDTHS", "Setting", "fitted", "gaussian", "rows", "store"]

WIDTHS, SEEDS = (256, 512, 1024), (1, 2)
BATCH, STEPS, LR, TRAIN_ROWS, TEST_ROWS = 1024, 1500, 3e-3, 40_000, 20_000


@dataclass(frozen=True)
class Setting:
    """A model and a hook; `lam` in training units was chosen at the middle width for an L0 of 20 to 40, then kept."""

    name: str
    model: str
    at: str
    lam: float
    tokens: TokenPolicy


SETTINGS = (
    Setting("vision", "dinov2-small-saliency", "blocks.9", 4.0, TokenPolicy()),
    # a row or two in a thousand holds most of the variance: dropped, as an audit does
    Setting("text", "smollm2-135m", "blocks.15", 4.0, TokenPolicy(max_norm=10)),
)


def store(setting: Setting, weights: str, source: Source, work: Path) -> ActivationStore:
    """Harvest, or open what was harvested before. `weights` is "pretrained" or "random"."""
    model = open_model(setting.model, weights=weights)
    return harvest(model, source, setting.at, work / f"{setting.name}-{weights}", tokens=setting.tokens)


def rows(of: ActivationStore) -> tuple[Tensor, Tensor]:
    """Training and test rows in memory: the first of a shuffled epoch, at most `TRAIN_ROWS` and `TEST_ROWS`."""
    train, test = of.rows("train"), of.rows("test")
    return (
        train.batch(0, min(TRAIN_ROWS, len(train)), seed=0).x.float(),
        test.batch(0, min(TEST_ROWS, len(test)), seed=0).x.float(),
    )


def gaussian(train: Tensor, n_test: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows drawn from the Gaussian with the mean and covariance of `train`, as many as in `train`, and test rows."""
    wide = train.double()
    mean, centred = wide.mean(0), wide - wide.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(train))
    root = vectors * values.clamp_min(0).sqrt()
    noise = torch.randn(len(train) + n_test, len(values), generator=generator(seed, "gaussian"), dtype=torch.float64)
    drawn = (noise @ root.T + mean).float()
    return drawn[: len(train)], drawn[len(train) :]


def fitted(train: Tensor, width: int, seed: int, lam: float, out: Path, steps: int = STEPS) -> Featurizer:
    """Fit an L1 dictionary of that width, or read the one that was fitted before."""
    if (out / "done").exists():
        return load(out)
    featurizer = ReLU(train.shape[1], width, seed=seed)
    fit(featurizer, ArrayRows(train), out=out, steps=steps, batch_size=BATCH, lr=LR, lam=lam, seed=seed)
    (out / "done").touch()
    return load(out)
