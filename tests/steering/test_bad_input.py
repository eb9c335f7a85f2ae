"""What a user gets wrong on the way from a featurizer to a steered model: one line each, that names what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.core.seeds import generator
from monoseme.evaluation import harmonics, phase_check
from monoseme.featurizers import BlockTopK, Featurizer
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.diffusion import UNet, sample_pictures
from monoseme.models.vit import ViT, init_random
from monoseme.steering import fit_map, steer, walk

WIDTH, PATCH = 8, 4
PICTURES = torch.randn(2, 3, 12, 16, generator=generator(0, "pictures"))


def vit() -> HookedModel:
    net = ViT(width=WIDTH, depth=2, heads=2, patch=PATCH, table=3)
    init_random(net, 0)
    return HookedModel(net.eval().requires_grad_(False), ModelFacts("tiny"))


def blocks(size: int = 2, d_in: int = WIDTH) -> Featurizer:
    return BlockTopK(d_in, 6, size, k=2)


def dead() -> Featurizer:
    """Block 5 never fires: its pre-code is always 0."""
    f = blocks()
    with torch.no_grad():
        for name, tensor in f.state_dict().items():
            if name.startswith("encoder"):
                tensor[10:] = 0
    return f


def codes_of(f: Featurizer, block: int) -> np.ndarray:
    rows = vit().run(PICTURES, "blocks.0").flatten(0, 1)
    code = f.encode(rows)
    return code.values[code.entries_of(block)].double().numpy()


def run_steered(at: str = "blocks.0", what: Any = None, pictures: torch.Tensor = PICTURES, **options: Any) -> Any:
    model = vit()
    with steer(model, at, what or blocks(), **({"block": 0, "to": np.ones(2)} | options)):
        return model(pictures)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: fit_map(codes_of(dead(), 5), "ring"), "codes"),
        (lambda: harmonics(np.zeros((24, 2)), 2 * np.pi * np.arange(24) / 24), "values"),
        (lambda: phase_check(np.zeros((16, 2))), "values"),
        (lambda: walk(fit_map(np.random.default_rng(0).normal(size=(60, 2)), "ring"), [3]), "waypoints"),
        (lambda: run_steered("blocks.9"), "at"),
        (lambda: run_steered("block.0"), "at"),
        (lambda: run_steered(pictures=torch.zeros(1, 3, 12, 15)), "size"),
        (lambda: run_steered(what=blocks(d_in=5)), "at"),
        (lambda: run_steered(what=blocks(3)), "to"),
        (lambda: run_steered(block=6), "block"),
        (lambda: run_steered(tokens=[99]), "tokens"),
        (lambda: blocks(3).decode(blocks(2).encode(torch.ones(2, WIDTH))), "code"),
        (lambda: sample_pictures(HookedModel(UNet(8, 2), ModelFacts("u")), torch.zeros(1).long(), 15), "x"),
    ],
)
def test_one_line_says_what_was_wrong(call: Callable[[], Any], word: str) -> None:
    check_refused(call, word)


def test_a_refused_steer_leaves_the_model_as_it_was() -> None:
    model = vit()
    before = model(PICTURES)
    check_refused(lambda: _entered(model), "tokens")
    torch.testing.assert_close(model(PICTURES), before, rtol=0, atol=0)


def _entered(model: HookedModel) -> None:
    with steer(model, "blocks.0", blocks(), block=0, to=np.ones(2), tokens=[99]):
        model(PICTURES)


@pytest.mark.parametrize("mode", ["ablate", "clamp"])
def test_a_block_that_never_fires_has_nothing_to_take_away(mode: str) -> None:
    model, f = vit(), dead()
    assert len(codes_of(f, 5)) == 0
    before = model(PICTURES)
    with steer(model, "blocks.0", f, block=5, mode=mode, to=None if mode == "ablate" else np.ones(2)):
        torch.testing.assert_close(model(PICTURES), before, rtol=0, atol=0)
