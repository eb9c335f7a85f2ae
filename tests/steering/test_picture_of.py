"""Pictures of codes: the spectrum they keep, that the ascent ascends, that the reached code is the one asked for."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.families.vit import ViT, ViTShape
from monoseme.steering import Painting, picture_of
from monoseme.steering.fourier import AXES, KINDS, SPREAD, amplitudes, first, opponent, paint

D, SIDE = 16, 24
ANGLES = np.linspace(0, 2 * np.pi, 4, endpoint=False)
WAY = 2 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1)


class Blocks:
    """Eight orthonormal blocks of two; the four of most presence are active."""

    def __init__(self, mean: torch.Tensor) -> None:
        basis = torch.linalg.qr(torch.randn(D, D, generator=generator(0, "atoms"))).Q
        self.atoms, self.bias = basis.reshape(8, 2, D), mean

    def encode(self, x: torch.Tensor, refine: object = None) -> Code:
        z = torch.einsum("nd,gbd->ngb", x - self.bias, self.atoms)
        mask = torch.zeros(len(x), 8, dtype=torch.bool).scatter_(1, z.norm(dim=2).topk(4).indices, True)
        return Code.from_dense(z * mask[:, :, None])

    def decode(self, code: Code) -> torch.Tensor:
        return torch.einsum("ngb,gbd->nd", code.to_dense(), self.atoms) + self.bias


def normalise(picture: np.ndarray) -> torch.Tensor:
    return (torch.from_numpy(picture / 255).float().movedim(-1, 0) - 0.5) / torch.tensor([0.2, 0.25, 0.3])[
        :, None, None
    ]


def cnn() -> tuple[HookedModel, str]:
    net = nn.Sequential(nn.Conv2d(3, 12, 5, 2), nn.ReLU(), nn.Conv2d(12, D, 3), nn.Flatten(), nn.Linear(D * 64, 3))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            fan = p[0].numel() if p.ndim > 1 else 4
            p.copy_(torch.randn(p.shape, generator=generator(i, "net")) * (2 / fan) ** 0.5)
    return HookedModel(net, ModelFacts("cnn", preprocess=normalise)), "2"


def vit() -> tuple[HookedModel, str]:
    net = ViT(ViTShape(2, D, 3, SIDE, 4, 3, 8), seed=0)
    return HookedModel(net, ModelFacts("vit", preprocess=normalise)), "blocks.1"


MODELS = {"cnn": cnn, "vit": vit}


def fitted(model: HookedModel, at: str) -> Blocks:
    """Blocks about the mean over random pictures."""
    assert model.preprocess is not None
    x = torch.stack([model.preprocess(picture) for picture in noise(64)])
    return Blocks(model.run(x, at=at).mean((0, 1)))


def noise(n: int) -> np.ndarray:
    """Random pictures of a photograph's spectrum, each of another seed."""
    made = [paint(first("phase", 1, SIDE, SIDE, 100 + i), "phase", SIDE)[0].movedim(0, -1) for i in range(n)]
    return (255 * torch.stack(made)).round().to(torch.uint8).numpy()


def projections(model: HookedModel, at: str, f: Blocks, pictures: np.ndarray) -> np.ndarray:
    """Objective of pictures for each waypoint, from the module alone."""
    assert model.preprocess is not None
    mean = model.run(torch.stack([model.preprocess(picture) for picture in pictures]), at=at).mean(1) - f.bias
    unit = torch.nn.functional.normalize(torch.as_tensor(WAY).float() @ f.atoms[3], dim=1)
    return (mean @ unit.T).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_the_reached_code_is_the_one_asked_for(name: str, kind: str) -> None:
    model, at = MODELS[name]()
    jitter = 2 if name == "cnn" else 0  # random patch embeddings know no neighbouring places
    f, how = fitted(model, at), Painting(kind, steps=80, rate=0.1, jitter=jitter, side=SIDE)
    made = picture_of(model, at, f, 3, WAY, how)
    chance = projections(model, at, f, noise(100))
    for i, one in enumerate(made):
        np.testing.assert_array_equal(one.waypoint, WAY[i])
        assert one.picture.shape == (SIDE, SIDE, 3)
        assert 0 <= one.picture.min() < one.picture.max() <= 1
        assert one.reached > one.start
        assert one.reached > chance[:, i].max()
        assert one.fires > 0.5
        assert one.cosine is not None
        assert one.cosine > 0.8
        # the figures are those of the picture, as anybody would prepare it
        pixels = (255 * one.picture).round().astype(np.uint8)
        assert projections(model, at, f, pixels[None])[0, i] == pytest.approx(one.reached, rel=0.02)
        x = model.run(normalise(pixels)[None], at=at)[0]
        found = f.encode(x).to_dense()[:, 3].mean(0)
        np.testing.assert_allclose(found, one.code, atol=0.05 * float(np.abs(one.code).max()))
    assert len({one.start for one in made}) == len(made)  # one beginning, told apart by the waypoints


def test_seeds_and_batches() -> None:
    model, at = cnn()
    f = fitted(model, at)

    def pictures(**options: Any) -> np.ndarray:
        how = Painting(**{"steps": 5, "side": SIDE, **options})
        return np.stack([one.picture for one in picture_of(model, at, f, 3, WAY, how)])

    base = pictures()
    np.testing.assert_array_equal(base, pictures())
    np.testing.assert_allclose(base, pictures(batch_size=3), atol=1e-5)
    assert float(np.abs(base - pictures(seed=1)).max()) > 0.05
    assert float(np.abs(base - pictures(jitter=0)).max()) > 1e-3


def test_chosen_tokens_are_the_ones_that_say_it() -> None:
    model, at = cnn()
    f, how = fitted(model, at), Painting(steps=60, rate=0.1, jitter=0, side=SIDE)
    (one,) = picture_of(model, at, f, 3, WAY[:1], how, tokens=[27])
    (all_of_them,) = picture_of(model, at, f, 3, WAY[:1], how)
    assert one.reached > 1.3 * all_of_them.reached  # one place alone is easier
    assert one.fires in (0.0, 1.0)


def test_a_block_that_stays_silent_is_told() -> None:
    model, at = cnn()
    f = fitted(model, at)
    f.encode = lambda x, refine=None: Code.from_dense(torch.zeros(len(x), 8, 2))
    (one,) = picture_of(model, at, f, 3, WAY[:1], Painting(steps=1, side=SIDE))
    assert (one.cosine, one.fires) == (None, 0.0)
    np.testing.assert_array_equal(one.code, np.zeros(2))


def test_the_model_is_left_as_it_was() -> None:
    model, at = cnn()
    f = fitted(model, at)
    model.module.train()
    before = model.revision
    picture_of(model, at, f, 3, WAY[:1], Painting(steps=2, side=SIDE))
    assert model.revision == before
    assert model.module.training
    assert all(p.grad is None and p.requires_grad for p in model.module.parameters())


@pytest.mark.parametrize(("height", "width"), [(16, 16), (15, 16), (12, 9)])
def test_phases_leave_the_spectrum_of_a_photograph(height: int, width: int) -> None:
    scale = amplitudes(height, width)
    inner = slice(1, (width - 1) // 2 + 1)  # the other columns are their own mirror images
    for seed in range(3):
        maps = opponent(paint(first("phase", 1, height, width, seed).double(), "phase", width))
        found = torch.fft.rfft2(maps, norm="ortho").abs()[0, :, :, inner]
        torch.testing.assert_close(found, scale[:, inner].expand(3, -1, -1).double(), rtol=1e-4, atol=1e-5)
    # 1 ÷ frequency, and variance 1 over all
    assert float(scale[0, 2] / scale[0, 4]) == pytest.approx(2)
    drawn = torch.cat([paint(first("phase", 1, height, width, s), "phase", width) for s in range(200)])
    assert float(opponent(drawn).square().mean()) == pytest.approx(1, rel=0.1)


def test_free_coefficients_at_unit_spread_are_as_photographs() -> None:
    theta = torch.randn(200, 3, 16, 9, 2, generator=generator(0, "theta"), dtype=torch.float64)
    maps = opponent(paint(theta, "spectrum", 16))
    assert float(maps.square().mean()) == pytest.approx(1, rel=0.1)
    power = torch.fft.rfft2(maps, norm="ortho").abs().square().mean((0, 1))[:, 1:-1]
    torch.testing.assert_close(power, amplitudes(16, 16)[:, 1:-1].square().double(), rtol=0.35, atol=0)


def test_colours_are_opponent_axes() -> None:
    axes = torch.tensor(AXES)
    torch.testing.assert_close(axes @ axes.T, torch.eye(3))
    drawn = torch.cat([paint(first("phase", 1, 16, 16, s), "phase", 16) for s in range(100)])
    spread = torch.einsum("nchw,ac->nahw", torch.logit(drawn) / 4, axes).std((0, 2, 3))
    torch.testing.assert_close(spread, torch.tensor(SPREAD), rtol=0.1, atol=0)


def squared(picture: np.ndarray) -> torch.Tensor:
    return normalise(picture) ** 2


SQUARED = ModelFacts("squared", preprocess=squared)


@pytest.mark.parametrize(
    ("says", "change"),
    [
        ("block must lie in 0..7", {"block": 8}),
        (r"way must be \(n, 2\) codes", {"way": np.ones((2, 3))}),
        ("way must be codes with a direction", {"way": np.zeros((1, 2))}),
        ("way must be codes with a direction", {"way": np.full((1, 2), np.nan)}),
        ("way must be", {"way": np.zeros((0, 2))}),
        ("at must give rows of width 16", {"at": "0"}),
        ("at must name a module", {"at": "9"}),
        ("tokens must lie in 0..63", {"tokens": [64]}),
        ("model must prepare pictures by one shift", {"model": HookedModel(nn.Identity(), SQUARED)}),
    ],
)
def test_refusals(says: str, change: dict[str, Any]) -> None:
    model, at = cnn()
    how = Painting(steps=1, side=SIDE)
    asked = {"model": model, "at": at, "f": fitted(model, at), "block": 3, "way": WAY, "how": how}
    with pytest.raises(UserError, match=says) as error:
        picture_of(**(asked | change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{"kind": "pixels"}, {"steps": 0}, {"jitter": -1}, {"rate": 0.0}, {"batch_size": 0}]
)
def test_wrong_settings(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Painting(**options)


def test_sizes_come_from_the_preprocessing() -> None:
    from PIL import Image

    def resized(picture: np.ndarray) -> torch.Tensor:
        return normalise(np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.BICUBIC)))

    net, at = cnn()
    f = fitted(net, at)
    model = HookedModel(net.module, ModelFacts("x", preprocess=resized))
    (one,) = picture_of(model, at, f, 3, WAY[:1], Painting(steps=1))
    assert one.picture.shape == (SIDE, SIDE, 3)
    plain = HookedModel(net.module, ModelFacts("x"))
    made = picture_of(plain, at, f, 3, WAY[:1], Painting(steps=1, side=SIDE), prepare=lambda x: 2 * x - 1)
    assert made[0].picture.shape == (SIDE, SIDE, 3)
