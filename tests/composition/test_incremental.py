"""Moved weights rendered the short way and the long way; what cannot change; what is refused."""

from __future__ import annotations

import pytest
import torch
from tests.composition.public_genomes import fer, present

from monoseme.composition.incremental import Move, Rendering, naive
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.scenes import SCENES, scene
from monoseme.core.errors import UserError


def every(net: ImageNetwork, delta: float) -> list[Move]:
    return [Move(*entry, delta) for entry in net.entries()]


def compare(net: ImageNetwork, moves: list[Move], size: int, close: float) -> None:
    before = [w.detach().clone() for w in net.weights]
    found = list(Rendering(net, size).moved(moves))
    assert sorted(move for move, _ in found) == sorted(moves)
    for move, picture in found:
        torch.testing.assert_close(picture, naive(net, move, size), rtol=0, atol=close, msg=str(move))
    assert all(torch.equal(a, b) for a, b in zip(before, net.weights, strict=True))


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_every_weight_of_every_scene(name: str, dtype: torch.dtype, close: float) -> None:
    net = layerize(scene(name), dtype)
    compare(net, [*every(net, 0.4), *every(net, -1.0)], 20, close)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_dense_networks(dtype: torch.dtype, close: float) -> None:
    net = ImageNetwork.dense(7, 4, ["sin", "gaussian", "tanh", "relu", "sigmoid", "cos", "identity"]).to(dtype)
    net.masks[2][3] = False
    compare(net, every(net, 0.5), 80, close)
    ink = ImageNetwork.dense(5, 1, "sin", outputs=1).to(dtype)
    compare(ink, every(ink, -0.3), 9, close)


def test_weights_that_are_zero_can_be_moved_too() -> None:
    net = layerize(scene("face"), torch.float64)
    free = [Move(1, 0, 3, 0.5), Move(2, 4, 1, -0.5), Move(len(net.weights) - 1, 0, 2, 0.2)]
    compare(net, free, 16, 1e-10)


def test_what_leads_nowhere_is_known_to_be_idle() -> None:
    net = ImageNetwork.dense(4, 3, "tanh").double()
    with torch.no_grad():
        net.weights[2][:, 1] = 0  # nothing reads neuron 1 of the second layer
        net.weights[0][2] = 0  # neuron 2 of the first layer is 0 everywhere
    rendering = Rendering(net, 12)
    idle = {move for move in every(net, 0.5) if rendering.idle(move)}
    assert {(m.layer, m.to) for m in idle if m.layer == 1 and m.to == 1} == {(1, 1)}
    assert all(m.from_ == 2 for m in idle if m.layer == 1 and m.to != 1)
    for move, picture in rendering.moved(idle):
        assert torch.equal(picture, rendering.picture), move
    lively = [move for move in every(net, 0.5) if move not in idle]
    assert all(float((picture - rendering.picture).abs().max()) > 0 for _, picture in rendering.moved(lively))


@present
def test_the_public_skull_dense_and_sparse() -> None:
    for kind in ("picbreeder", "sgd"):
        net = fer("skull", kind)
        compare(net, every(net, 0.7)[:: 11 if kind == "sgd" else 3], 24, 1e-9)


@pytest.mark.parametrize(
    "move", [Move(9, 0, 0, 1.0), Move(0, 9, 0, 1.0), Move(0, 0, 4, 1.0), Move(0, 0, 0, float("nan"))]
)
def test_moves_outside_the_network_are_refused(move: Move) -> None:
    with pytest.raises(UserError, match="moves"):
        list(Rendering(ImageNetwork.dense(3, 2), 8).moved([move]))
