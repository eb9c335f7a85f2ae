"""Pruning: scores against loops, planted duplicates, masks kept, survivors rewound, shares exact, wrong input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from torch import Tensor, nn

from monoseme.composition.canvas import coordinates
from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image, picture_loss
from monoseme.composition.pruning import METHODS, prune, shuffled
from monoseme.composition.pruning.layers import layers_of, maps_of, sparsity
from monoseme.composition.pruning.scores import WEIGHTS, chosen
from monoseme.composition.pruning.victims import NEURONS
from monoseme.composition.scenes import scene
from monoseme.core.seeds import generator, rng

X = torch.randn(40, 6, generator=generator(0, "x"), dtype=torch.float64)
PICTURES = torch.randn(9, 2, 6, 6, generator=generator(0, "pictures"), dtype=torch.float64)


def drawn(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator(i, "net"), dtype=torch.float64))
    return module


def mlp() -> nn.Module:
    return drawn(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 7), nn.GELU(), nn.Linear(7, 3)).double())


def cnn() -> nn.Module:
    layers = (nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3))
    return drawn(nn.Sequential(*layers).double())


def image() -> ImageNetwork:
    return ImageNetwork.dense(9, 3, ["sin", "gaussian", "tanh"] * 3, seed=1).double()


NETS: dict[str, tuple[Callable[[], nn.Module], Any]] = {"mlp": (mlp, X), "cnn": (cnn, PICTURES), "image": (image, 12)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", NETS)
def test_every_method_reaches_its_share_and_masks_hold(method: str, net: str) -> None:
    module, data = NETS[net][0](), NETS[net][1]

    def disturb(m: nn.Module) -> None:
        with torch.no_grad():
            for parameter in m.parameters():
                parameter.add_(0.01)

    def loss(m: nn.Module) -> Tensor:
        return m(coordinates(data, torch.float64) if isinstance(data, int) else data).square().mean()

    more: dict[str, Any] = {"objective": loss} if method == "taylor" else {}
    found = prune(module, data, method, to=0.4, rounds=3, retrain=disturb, seed=2, **more)
    exact = method in WEIGHTS
    assert (
        found.sparsity == pytest.approx(0.4, abs=0.1 if method == "wanda" else 0.05) if exact else found.sparsity >= 0.4
    )
    assert [r.sparsity for r in found.rounds] == sorted(r.sparsity for r in found.rounds)
    for layer in found.layers:
        assert (layer.weight.detach()[~layer.mask] == 0).all()
        assert layer.kept.any()
    assert bool(found.rounds[0].victims) == (not exact)
    again = NETS[net][0]()
    prune(again, data, method, to=0.4, rounds=3, retrain=disturb, seed=2, **more)
    for one, other in zip(module.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_wanda_is_the_loop_of_its_paper() -> None:
    module = mlp()
    layers = layers_of(module)
    maps = maps_of(module, layers, X)
    masks = chosen(WEIGHTS["wanda"], layers, maps, 0.5, rng(0, "x"))
    a = module[1](module[0](X)).detach()  # pyright: ignore
    inputs = [X, a, module[3](module[2](a)).detach()]  # pyright: ignore
    for layer, x, mask in zip(layers, inputs, masks, strict=True):
        for i in range(len(layer.weight)):
            scores = [abs(float(layer.weight.detach()[i, j])) * float(x[:, j].norm()) for j in range(x.shape[1])]
            kept = sorted(range(len(scores)), key=lambda j, s=scores: -s[j])[: round(0.5 * len(scores))]
            assert sorted(kept) == torch.nonzero(mask[i]).flatten().tolist()


def test_magnitude_takes_the_smallest_of_the_whole_network() -> None:
    module = mlp()
    values = torch.cat([layer.weight.detach().abs().flatten() for layer in layers_of(module)])
    found = prune(module, X, "magnitude", to=0.3)
    left = torch.cat([layer.weight.detach().abs()[layer.mask] for layer in found.layers])
    assert float(left.min()) >= float(values.sort().values[round(0.3 * len(values)) - 1])


def test_fpgm_is_the_loop_of_its_paper() -> None:
    module = mlp()
    layers = layers_of(module)
    order = [(i, n) for i, n, _ in NEURONS["fpgm"](layers, [], rng(0, "x"), {}) if i == 0]
    rows = layers[0].weight.detach()
    sums = [sum(float((rows[n] - rows[m]).norm()) for m in range(len(rows))) for n in range(len(rows))]
    assert [n for _, n in order] == sorted(range(len(rows)), key=lambda n: sums[n])


def test_planted_duplicates_are_the_first_to_go() -> None:
    for make, data in NETS.values():
        module = make()
        layers = layers_of(module)
        with torch.no_grad():
            layers[1].weight[2] = layers[1].weight[4]
            if layers[1].bias is not None:
                layers[1].bias[2] = layers[1].bias[4]
        if isinstance(module, ImageNetwork):
            module = ImageNetwork(list(module.weights), [["sin"] * 9] * 3)
        found = prune(module, data, "similarity", to=0.02)
        (victim, *_) = found.rounds[0].victims
        assert victim[0] == found.layers[1].name
        assert victim[1] in (2, 4)
        assert victim[2] == pytest.approx(1)


def test_cosines_are_those_of_the_maps_and_constant_ones_count_for_nothing() -> None:
    module = mlp()
    with torch.no_grad():
        module[0].weight[3] = 0  # pyright: ignore
    layers = layers_of(module)
    maps = module[1](module[0](X)).detach()  # pyright: ignore
    one = maps_of(module, layers, X)[0]
    for centred in (False, True):
        a = maps - maps.mean(0) if centred else maps
        a = a / a.norm(dim=0).clamp(min=1e-300)
        expected = a.T @ a
        expected[3] = expected[:, 3] = 0
        torch.testing.assert_close(one.cosines(centred), expected.fill_diagonal_(0), atol=1e-9, rtol=0)


def test_sums_do_not_depend_on_batches() -> None:
    for make, data in (NETS["mlp"], NETS["cnn"]):
        module = make()
        layers = layers_of(module)
        for one, other in zip(maps_of(module, layers, data), maps_of(module, layers, data.split(4)), strict=True):
            torch.testing.assert_close(one.gram, other.gram)
            torch.testing.assert_close(one.inputs, other.inputs)
            assert (one.n, one.m) == (other.n, other.m)


def test_a_removed_neuron_is_gone_from_both_sides() -> None:
    module = cnn()
    found = prune(module, PICTURES, "random-neurons", to=0.25, seed=1)
    gone = [(name, n) for name, n, _ in found.rounds[0].victims]
    before = module(PICTURES)
    with torch.no_grad():
        for name, n in gone:
            layer = next(one for one in found.layers if one.name == name)
            layer.weight[n] = 5.0
    torch.testing.assert_close(module(PICTURES), before)  # nothing reads them


def test_survivors_go_back_to_where_they_began() -> None:
    module = mlp()
    first = {k: v.clone() for k, v in module.state_dict().items()}

    def trained(m: nn.Module) -> None:
        with torch.no_grad():
            for parameter in m.parameters():
                parameter.mul_(1.5).add_(0.1)

    trained(module)
    found = prune(module, X, "magnitude", to=0.5, rounds=2, rewind=first)
    for layer in found.layers:
        kept = first[f"{layer.name}.weight"][layer.mask]
        assert torch.equal(layer.weight.detach()[layer.mask], kept)


def test_a_shuffled_mask_is_as_sparse_in_every_layer() -> None:
    found = prune(mlp(), X, "similarity", to=0.4)
    masks = shuffled(found.layers, seed=3)
    for layer, mask in zip(found.layers, masks, strict=True):
        assert int(mask.sum()) == int(layer.mask.sum())
    assert any(not torch.equal(layer.mask, mask) for layer, mask in zip(found.layers, masks, strict=True))


def test_a_bound_on_the_loss_ends_the_rounds() -> None:
    losses = iter([0.1, 0.2, 0.9, 0.1])
    found = prune(mlp(), X, "magnitude", to=0.8, rounds=4, loss=lambda _: next(losses), bound=0.5)
    assert [r.after for r in found.rounds] == [0.1, 0.2, 0.9]
    assert sparsity(found.layers) < 0.8


@pytest.mark.parametrize("method", ["similarity", "magnitude"])
def test_a_picture_survives_pruning_with_training(method: str) -> None:
    target, network = scene("apple").render(16).float(), ImageNetwork.dense(12, 3, ["sin", "gaussian", "tanh"] * 4)
    fit_image(network, target, steps=300, lr=1e-2)
    found = prune(
        network,
        16,
        method,
        to=0.4,
        rounds=2,
        retrain=lambda m: fit_image(m, target, steps=150, lr=1e-2),  # pyright: ignore[reportArgumentType]
        loss=lambda m: picture_loss(m, target),  # pyright: ignore[reportArgumentType]
    )
    last = found.rounds[-1]
    assert last.before is not None
    assert last.after is not None
    assert last.after < 0.5 * last.before
    assert len(network.entries()) == round((1 - found.sparsity) * sum(w.numel() for w in network.weights))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(x + self.a(x))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "method": (lambda: prune(mlp(), X, "magnitud"), "method"),
    "share": (lambda: prune(mlp(), X, to=1.0), "to"),
    "rounds": (lambda: prune(mlp(), X, rounds=0), "rounds"),
    "bound": (lambda: prune(mlp(), X, bound=0.1), "loss"),
    "no layers": (lambda: prune(nn.Tanh(), X), "module"),
    "no chain": (lambda: prune(Residual().double(), X, "similarity"), "chain"),
    "data": (lambda: prune(image(), X), "data"),
    "data of a module": (lambda: prune(mlp(), 12), "data"),
    "no data": (lambda: prune(mlp(), iter(())), "data"),
    "NaN": (lambda: prune(mlp(), X * torch.nan), "data"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_argument(name: str) -> None:
    check_refused(*BAD[name])


def test_weights_of_any_module_can_be_pruned() -> None:
    found = prune(Residual().double(), X, "wanda", to=0.5)
    assert found.sparsity == pytest.approx(0.5)
