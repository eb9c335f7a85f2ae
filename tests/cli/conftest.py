"""A toy model in the registry, a folder of pictures, and a store, so that every verb can run end to end."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import monoseme as ms
from monoseme.cli.main import main
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.open import REGISTRY
from monoseme.store import PictureFolder

PATCH, WIDTH = 14, 12
Call = Callable[..., tuple[int, str, str]]


class Toy(nn.Module):
    """Ten named layers of which the first reads patches."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        stream = torch.Generator().manual_seed(seed)
        weight = torch.randn(WIDTH, 3, PATCH, PATCH, generator=stream) / PATCH
        self.register_buffer("weight", weight)
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(10))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.conv2d(x, self.get_buffer("weight"), stride=PATCH)
        for block in self.blocks:
            x = block(x)
        return x


def preprocess(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture.transpose(2, 0, 1).copy()).float() / 255 - 0.5


def open_toy(weights: str, seed: int) -> HookedModel:
    facts = ModelFacts("toy", weights, "A toy.", patch=PATCH, preprocess=preprocess)
    return HookedModel(Toy(seed + (weights == "random")), facts)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "toy", open_toy)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, stream = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for i in range(24):
        coarse = stream.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((84, 84)).save(folder / f"{i:02d}.png")
    return folder


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    out = tmp_path_factory.mktemp("store") / "store"
    return ms.harvest(open_toy("pretrained", 0), PictureFolder(pictures, 84), at="blocks.9", out=out).path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    out, held = tmp_path_factory.mktemp("run") / "run", ms.ActivationStore.open(store)
    featurizer = ms.featurizers.BlockTopK(held.d_in, 8, 2, k=2)
    ms.fit(featurizer, held, out=out, steps=30, batch_size=64)
    return out


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line: exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
