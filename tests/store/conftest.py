"""A tiny picture model and data that every store test can afford."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from monoseme.models import HookedModel, ModelFacts
from monoseme.store import Sample


class TinyViT(nn.Module):
    """CLS and one token a 4 x 4 patch, each a fixed linear map of its pixels."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        weights = torch.randn(width, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        self.register_buffer("weights", weights)
        self.block = nn.Identity()
        self.head = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        patches = nn.functional.conv2d(x, self.get_buffer("weights"), stride=4).flatten(2).transpose(1, 2)
        tokens = torch.cat([100 + patches.mean(1, keepdim=True), patches], 1)
        return self.head(self.block(tokens))


def preprocess(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture.transpose(2, 0, 1).copy()).float() / 255


@pytest.fixture
def model() -> HookedModel:
    return HookedModel(TinyViT(), ModelFacts("tiny", patch=4, special_tokens=1, preprocess=preprocess))


@pytest.fixture
def samples() -> list[Sample]:
    return make_samples(30)


def make_samples(n: int, height: int = 8, width: int = 12) -> list[Sample]:
    stream = np.random.default_rng(0)
    found = []
    for i in range(n):
        image = stream.integers(0, 256, (height, width, 3), dtype=np.uint8)
        mask = np.zeros((height, width), bool)
        mask[:4, :6] = True
        found.append(Sample(f"s/{i}", image, {"label": f"class {i % 3}"}, f"group {i // 2}", mask))
    return found
