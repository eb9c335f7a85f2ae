"""The feature ansatz: exponents of linear networks, against matrix powers written out, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import fractional_matrix_power
from tests.interaction.small_nets import build
from torch import Tensor, nn

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.interaction.nfa import NFA, alignment, nfa


def balanced(layers: int, width: int = 5) -> nn.Sequential:
    """Linear layers with W_{l+1}ᵀ W_{l+1} = W_l W_lᵀ, of singular values that differ."""
    stream = generator(0, "balanced")
    turns = [torch.linalg.qr(torch.randn(width, width, generator=stream).double())[0] for _ in range(layers + 1)]
    scale = torch.diag(torch.linspace(0.5, 2, width).double())
    net = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers))).double()
    with torch.no_grad():
        for layer, left, right in zip(net, turns[1:], turns[:-1], strict=True):
            layer.weight.copy_(left @ scale @ right.T)  # pyright: ignore[reportCallIssue,reportArgumentType]
    return net


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_the_first_layer_of_a_balanced_linear_network_has_power_one_over_its_depth(layers: int) -> None:
    found = nfa(balanced(layers), torch.randn(4, 5, generator=generator(1, "x")).double())
    first, last = found.layers[0], found.layers[-1]
    assert first.power.value == pytest.approx(1 / layers, abs=1e-3)
    assert first.cosine.value == pytest.approx(1, abs=1e-9)
    assert last.power.value == pytest.approx(1, abs=1e-3)
    assert first.rank.value == pytest.approx(1, abs=1e-6)


def test_numbers_are_those_of_matrix_powers_written_out() -> None:
    a, b = (torch.randn(7, 5, generator=generator(s, "ab")).double().numpy() for s in (0, 1))
    nfm, g = a.T @ a, b.T @ b
    for power in (0.3, 0.5, 1.0, 1.7):
        made = np.real(fractional_matrix_power(g, power))
        expected = (nfm * made).sum() / np.sqrt((nfm**2).sum() * (made**2).sum())
        cosine, centred, _ = alignment(nfm, g, power)
        assert cosine == pytest.approx(expected, rel=1e-9)
        assert centred == pytest.approx(np.corrcoef(nfm.ravel(), made.ravel())[0, 1], rel=1e-8)


def test_the_best_power_is_the_best_of_a_fine_grid() -> None:
    module, x = build("mlp")
    for one in nfa(module, x).layers:
        found = nfa(module, x, layers=[one.layer])
        weight = module.get_submodule(one.layer).weight.detach().double().numpy()  # pyright: ignore
        grid = [alignment(weight.T @ weight, found.agops[one.layer].matrix, p)[0] for p in np.linspace(0.05, 2, 400)]
        assert one.cosine.value is not None
        assert one.cosine.value >= max(grid) - 1e-6


def test_convolutions_groups_and_every_family() -> None:
    for name, of in (("mlp", "logits"), ("cnn", "logits"), ("vit", "logits"), ("gru", "logits"), ("gpt", "last")):
        module, x = build(name)
        found = nfa(module, x, of=of)
        kinds = [n for n, m in module.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
        assert [one.layer for one in found.layers] == kinds
        for one in found.layers:
            assert one.cosine.value is not None
            assert 0 < one.cosine.value <= 1 + 1e-9
            assert one.cosine.value >= max(one.cosine_half.value or 0, one.cosine_one.value or 0) - 1e-6
    assert found.table().count("\n") == len(found.layers)


def test_first_weights_are_taken_off() -> None:
    module, x = build("mlp")
    before = {k: v.clone() for k, v in module.state_dict().items()}
    with torch.no_grad():
        module.get_parameter("0.weight").add_(0.1)
    plain, moved = nfa(module, x, layers=["0"]), nfa(module, x, layers=["0"], initial=before)
    ones = np.ones((6, 6))
    assert moved.layers[0].cosine_one.value == pytest.approx(alignment(ones, moved.agops["0"].matrix, 1.0)[0], rel=1e-9)
    assert plain.layers[0].cosine_one.value != moved.layers[0].cosine_one.value
    still: NFA = nfa(module, x, initial=module)
    assert all(one.cosine.value is None for one in still.layers)


class Bare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda m, x: nfa(m, x, layers=["zero"]), "layers"),
        (lambda m, x: nfa(m, x, initial={}), "initial"),
        (lambda m, x: nfa(m, x, initial={"0.weight": torch.zeros(2, 2)}), "initial"),
        (lambda m, x: nfa(Bare(), x), "model"),
    ],
)
def test_wrong_input_is_refused(call: object, argument: str) -> None:
    module, x = build("mlp")
    with pytest.raises(UserError, match=argument) as caught:
        call(module, x)  # pyright: ignore[reportCallIssue]
    assert "\n" not in str(caught.value)
