"""timm is not a dependency: these tests put a stand-in of its four functions in its place, not the library."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.models import TokenGrid, open_model


class StandIn(nn.Module):
    """A vision transformer's outside: 4-pixel patches, one leading token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 6, 4, stride=4)
        self.patch_embed.patch_size = (4, 4)  # type: ignore[assignment]
        self.num_features, self.num_prefix_tokens = 6, 1
        self.pretrained_cfg = {"label_names": ["cat", "dog"]}
        self.blocks = nn.Identity()
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        patches = self.patch_embed(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(torch.cat([patches[:, :1], patches], 1))[:, 0])


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    calls = []
    library: Any = ModuleType("timm")
    data: Any = ModuleType("timm.data")

    def create_model(name: str, pretrained: bool) -> nn.Module:
        calls.append((name, pretrained))
        if name != "vit_stand_in":
            raise RuntimeError(f"Unknown model ({name})\nand a second line")
        return StandIn()

    library.create_model = create_model
    library.data = data
    data.resolve_model_data_config = lambda module: {"mean": 0.5}
    data.create_transform = lambda mean, is_training: (
        lambda picture: torch.from_numpy(np.asarray(picture) / 255 - mean).float().permute(2, 0, 1)
    )
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return calls


def test_facts_come_from_the_library(timm) -> None:
    model = open_model("timm:vit_stand_in")
    assert timm == [("vit_stand_in", True)]
    facts = model.facts
    assert (model.name, facts.weights, facts.d_model, facts.patch) == ("timm:vit_stand_in", "pretrained", 6, 4)
    assert (facts.special_tokens, facts.classes) == (1, ("cat", "dog"))
    assert model.preprocess is not None
    x = model.preprocess(np.full((8, 12, 3), 255, np.uint8))
    torch.testing.assert_close(x, torch.full((3, 8, 12), 0.5))
    assert model.run(x[None], at="blocks").shape == (1, 7, 6)
    assert model.grid("blocks") == TokenGrid(2, 3, 1)


def test_random_weights_are_seeded(timm) -> None:
    first, same, other = (open_model("timm:vit_stand_in", "random", seed) for seed in (0, 0, 1))
    assert {pretrained for _, pretrained in timm} == {False}
    assert first.revision == same.revision != other.revision
    assert "control" in first.caveat


def test_unknown_name(timm) -> None:
    with pytest.raises(UserError, match=r"Unknown model \(vit_huge\)") as error:
        open_model("timm:vit_huge")
    assert str(error.value).startswith("model must")
    assert "\n" not in str(error.value)
