"""Training on pictures: losses fall, masks hold under both optimisers, a stopped fit goes on bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import Painting, fit_image, picture_loss
from monoseme.composition.scenes import scene
from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.learning import Progress

TARGET = scene("apple").render(16).float()


def net(seed: int = 0) -> ImageNetwork:
    return ImageNetwork.dense(10, 3, ["sin", "gaussian", "tanh", "identity", "sigmoid"] * 2, seed=seed)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_losses_fall_and_are_those_of_the_picture(optimiser: str) -> None:
    network = net()
    before = picture_loss(network, TARGET)
    found = fit_image(network, TARGET, steps=200, lr=1e-2, optimiser=optimiser)
    assert found.loss < 0.3 * before
    assert found.network is network
    assert found.loss == pytest.approx(float((network.render(16) - TARGET).square().mean()), rel=1e-5)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_masks_hold_through_every_step(optimiser: str) -> None:
    network = net()
    for i, mask in enumerate(network.masks):
        mask.copy_(torch.rand(mask.shape, generator=generator(i, "mask")) < 0.6)
    masks = [mask.clone() for mask in network.masks]
    seen: list[float] = []

    def look(_: Progress) -> None:
        seen.append(max(float(w.detach()[~m].abs().max()) for w, m in zip(network.weights, masks, strict=True)))

    before = [w.detach().clone() for w in network.weights]
    fit_image(network, TARGET, steps=60, lr=1e-2, optimiser=optimiser, progress=look)
    assert seen
    assert all(torch.equal(a, b) for a, b in zip(network.masks, masks, strict=True))
    for w, m, old in zip(network.weights, masks, before, strict=True):
        assert (w.detach()[~m] == 0).all()
        assert float((w.detach() - old)[m].abs().max()) > 1e-4


def test_muon_leaves_first_and_last_layer_to_adam() -> None:
    thing = Painting(net())
    kept = list(thing.adam_parameters())
    assert kept[0] is thing.network.weights[0]
    assert kept[1] is thing.network.weights[-1]
    by_adam, by_muon = net(), net()
    fit_image(by_adam, TARGET, steps=1, lr=1e-2)
    fit_image(by_muon, TARGET, steps=1, lr=1e-2, optimiser="muon")
    torch.testing.assert_close(by_adam.weights[0], by_muon.weights[0])
    torch.testing.assert_close(by_adam.weights[-1], by_muon.weights[-1])
    assert float((by_adam.weights[1] - by_muon.weights[1]).detach().abs().max()) > 1e-4


def test_normalised_gradients_have_norm_one() -> None:
    thing = Painting(net(), normalise=True)
    x = torch.rand(50, 7, generator=generator(0, "rows"))
    thing.loss(x, 0)[0].backward()
    thing.before_step(0)
    norm = torch.stack([w.grad.square().sum() for w in thing.parameters() if w.grad is not None]).sum().sqrt()
    assert float(norm) == pytest.approx(1, rel=1e-5)


class Stop(Exception):
    pass


def test_a_stopped_fit_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = fit_image(net(), TARGET, steps=250, lr=1e-2, optimiser="muon")

    def stop(p: Progress) -> None:
        if p.step >= 150:
            raise Stop

    with pytest.raises(Stop):
        fit_image(net(), TARGET, steps=250, lr=1e-2, optimiser="muon", out=tmp_path, progress=stop)
    again = fit_image(net(), TARGET, steps=250, lr=1e-2, optimiser="muon", out=tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(whole.network.weights, again.network.weights, strict=True))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "shape": (lambda: fit_image(net(), torch.rand(8, 9, 3)), "target"),
    "range": (lambda: fit_image(net(), 255 * torch.rand(8, 8, 3)), "target"),
    "optimiser": (lambda: fit_image(net(), TARGET, optimiser="sgd"), "optimiser"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_argument(name: str) -> None:
    call, says = BAD[name]
    with pytest.raises(UserError, match=says):
        call()
