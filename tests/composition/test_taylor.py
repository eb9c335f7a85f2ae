"""Taylor groups against a loop over neurons, and against what really happens to the loss; wrong input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from tests.composition.test_pruning import X, cnn, image, mlp
from torch import Tensor, nn

from monoseme.composition.painting import picture_error
from monoseme.composition.pruning import prune
from monoseme.composition.pruning.layers import layers_of, maps_of
from monoseme.composition.pruning.taylor import add_gradients, taylor
from monoseme.composition.scenes import scene
from monoseme.core.seeds import generator, rng

Y = torch.randn(40, 3, generator=generator(0, "y"), dtype=torch.float64)


def batches(module: nn.Module) -> Tensor:
    """One loss for each of five batches."""
    return (module(X) - Y).square().mean(1).reshape(5, 8).mean(1)


def scored(module: nn.Module, data: Any, objective: Any, **options: str) -> dict[tuple[int, int], float]:
    layers = layers_of(module)
    maps = maps_of(module, layers, data)
    add_gradients(module, layers, maps, objective)
    return {(index, neuron): value for index, neuron, value in taylor(layers, maps, rng(0, "x"), options)}


def by_hand(element: str, w: Tensor, gs: Tensor) -> float:
    """One neuron's weights, and the gradients of every batch."""
    g, h = gs.mean(0), gs.square().mean(0)
    if element == "first":
        return sum(abs(float(a * b)) for a, b in zip(w, g, strict=True))
    if element == "vectorize":
        return abs(sum(float(a * b) for a, b in zip(w, g, strict=True)))
    if element == "second":
        return sum(float(a * b * a) for a, b in zip(w, h, strict=True))
    return sum(abs(float(a * b - 0.5 * a * c * a)) for a, b, c in zip(w, g, h, strict=True))


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
@pytest.mark.parametrize("element", ["first", "vectorize", "second", "mix"])
def test_scores_are_those_of_a_loop_over_neurons(element: str, reduction: str) -> None:
    module = mlp()
    linear = [module[0], module[2], module[4]]  # pyright: ignore
    grads = [torch.autograd.grad(loss, [one.weight for one in linear], retain_graph=True) for loss in batches(module)]
    stacked = [torch.stack([batch[i] for batch in grads]) for i in range(3)]
    found = scored(module, X, batches, element=element, reduction=reduction)
    assert list(found.values()) == sorted(found.values())
    for (index, neuron), value in found.items():
        w, after = linear[index].weight.detach(), linear[index + 1].weight.detach()
        both = [
            by_hand(element, w[neuron], stacked[index][:, neuron]),
            by_hand(element, after[:, neuron], stacked[index + 1][:, :, neuron]),
        ]
        wanted = {"sum": sum(both), "mean": sum(both) / 2, "max": max(both)}[reduction]
        assert value == pytest.approx(wanted, rel=1e-9)


def test_in_front_of_a_flattened_picture_columns_are_the_channels() -> None:
    module = cnn()
    pictures = torch.randn(9, 2, 6, 6, generator=generator(0, "pictures"), dtype=torch.float64)
    objective = lambda m: m(pictures).square().mean()  # noqa: E731
    found = scored(module, pictures, objective)
    w = module[5].weight.detach()  # pyright: ignore
    (g,) = torch.autograd.grad(objective(module), [module[5].weight])  # pyright: ignore
    (h,) = torch.autograd.grad(objective(module), [module[2].weight])  # pyright: ignore
    columns = slice(4 * 3, 4 * 4)  # channel 3 of 5, of 2 x 2 pixels
    wanted = (w * g)[:, columns].abs().sum() + (module[2].weight.detach() * h)[3].abs().sum()  # pyright: ignore
    assert found[1, 3] == pytest.approx(float(wanted), rel=1e-9)


def test_first_order_is_what_a_small_step_towards_zero_does() -> None:
    module = mlp()
    objective = lambda m: (m(X) - Y).square().mean()  # noqa: E731
    layers = layers_of(module)
    maps = maps_of(module, layers, X)
    add_gradients(module, layers, maps, objective)
    before, step = float(objective(module).detach()), 1e-6
    for layer, one in zip(layers, maps, strict=True):
        assert one.gradient is not None
        with torch.no_grad():
            layer.weight.mul_(1 - step)
            change = float(objective(module)) - before
            layer.weight.div_(1 - step)
        assert change / step == pytest.approx(-float((layer.weight.detach() * one.gradient[0]).sum()), rel=1e-3)


def test_a_neuron_that_does_nothing_goes_first() -> None:
    network = image()
    with torch.no_grad():
        network.weights[2][:, 4] = 0
        network.weights[1][4] = 0
    found = prune(network, 12, "taylor", to=0.05, objective=_error)
    assert found.rounds[0].victims[0][:2] == ("1", 4)


def _error(network: Any) -> Tensor:
    return picture_error(network, scene("face").render(12))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "objective"),
        ({"objective": lambda m: 1.0}, "objective"),
        ({"objective": lambda m: m(X).detach().mean()}, "objective"),
        ({"objective": lambda m: m(X)}, "objective"),
        ({"objective": batches, "element": "third"}, "element"),
        ({"objective": batches, "reduction": "min"}, "reduction"),
    ],
)
def test_wrong_input(options: Any, word: str) -> None:
    check_refused(lambda: prune(mlp(), X, "taylor", to=0.5, **options), word)
