"""A tiny picture model, a tiny language model, and data that every store test can afford."""

from collections.abc import Sequence

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


class Bytes:
    """A tokenizer of UTF-8 bytes: 256 begins a document, 257 stands for no text."""

    vocabulary, bos, special = 258, 256, frozenset({256, 257})

    def encode(self, text: str) -> list[int]:
        return list(text.replace("\x03", "").encode()) + [257] * text.count("\x03")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [f"<{i}>" if i > 255 else bytes([i]).decode(errors="replace") for i in ids]


class TinyLM(nn.Module):
    """One head of causal attention over tokens and positions. Padding gives NaN, as softmax over nothing does."""

    def __init__(self, width: int = 6, vocabulary: int = 258) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        stream = torch.Generator().manual_seed(0)
        for table in (self.tokens, self.places):
            table.weight.data = torch.randn(table.weight.shape, generator=stream)
        self.block = nn.Identity()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        place = (attention_mask.cumsum(1) - 1).clamp(min=0)
        x = self.tokens(input_ids) + self.places(place)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril() & attention_mask[:, None].bool()
        weights = (x @ x.mT / 2).masked_fill(~seen, -torch.inf).softmax(-1)
        return self.block(x + weights.masked_fill(~seen, 0) @ x) @ self.tokens.weight.T


@pytest.fixture
def lm() -> HookedModel:
    return HookedModel(TinyLM(), ModelFacts("tiny lm", tokenizer=Bytes(), context=64))


WORDS = ["the", "blue", "boat", "sails", "on", "a", "grey", "sea", "while", "nine", "gulls", "look", "down", "at", "it"]


@pytest.fixture
def texts() -> list[tuple[str, str]]:
    """Twenty documents of 2 to 60 bytes and two long ones."""
    stream = np.random.default_rng(0)
    found = [(f"d{i}", " ".join(stream.choice(WORDS, 1 + i % 12))) for i in range(20)]
    return [*found, ("long", " ".join(stream.choice(WORDS, 30))), ("longer", " ".join(stream.choice(WORDS, 50)))]
