"""Pruned networks made smaller: equal outputs, and truly smaller."""

from __future__ import annotations

import pytest
import torch
from tests.composition.test_pruning import NETS, PICTURES, Residual, X, mlp
from torch import nn

from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.pruning import compact, prune
from monoseme.composition.scenes import scene
from monoseme.core.errors import UserError


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", ["similarity", "random-neurons", "magnitude"])
def test_outputs_are_equal_and_the_network_is_smaller(net: str, method: str) -> None:
    module, data = NETS[net][0](), NETS[net][1]
    before = size(module)
    found = prune(module, data, method, to=0.5, seed=4)
    made = compact(module)
    if isinstance(module, ImageNetwork):
        assert isinstance(made, ImageNetwork)
        torch.testing.assert_close(made.render(20), module.render(20), rtol=0, atol=1e-12)
    else:
        x = X if net == "mlp" else PICTURES
        torch.testing.assert_close(made(x), module(x), rtol=1e-12, atol=1e-12)
    if method != "magnitude":
        assert size(made) < (1 - 0.8 * found.sparsity) * before
    assert size(module) == before


def test_float32_is_equal_to_1e_6() -> None:
    module = mlp().float()
    prune(module, X.float(), "similarity", to=0.4)
    torch.testing.assert_close(compact(module)(X.float()), module(X.float()), rtol=1e-5, atol=1e-6)


def test_a_layerised_scene_loses_the_neurons_that_were_only_there_for_the_bank() -> None:
    net = layerize(scene("face"), torch.float64)
    made = compact(net)
    assert isinstance(made, ImageNetwork)
    torch.testing.assert_close(made.render(16), net.render(16), rtol=0, atol=1e-12)
    assert size(made) < 0.7 * size(net)
    assert len(made.entries()) == len(net.entries()) - 2  # hue and saturation, which are 0


def test_what_is_1_at_0_and_read_stays() -> None:
    weights = [torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]]), torch.tensor([[0.5, 0.25]])]
    net = ImageNetwork(weights, [["sin", "gaussian"]])  # the second neuron is 1 everywhere: a constant
    made = compact(net)
    assert isinstance(made, ImageNetwork)
    assert made.banks[0].names == ("sin", "gaussian")
    torch.testing.assert_close(made.render(6), net.render(6))


@pytest.mark.parametrize(
    "module",
    [
        Residual(),
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        nn.Sequential(nn.Sequential(nn.Linear(3, 4))),
    ],
)
def test_what_cannot_be_followed_is_refused(module: nn.Module) -> None:
    with pytest.raises(UserError, match="module"):
        compact(module)
