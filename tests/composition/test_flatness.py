"""Curvature against the dense Hessian and against forms that are known; noise on weights; wrong input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from torch import Tensor, nn

from monoseme.composition.flatness import flatness, hessian, hessian_product, hessian_trace, loss_rise, top_eigenvalue
from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import picture_error
from monoseme.composition.scenes import scene
from monoseme.core.seeds import generator


class Quadratic(nn.Module):
    def __init__(self, values: list[float], at: float = 1.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((len(values),), at, dtype=torch.float64))
        self.values = torch.tensor(values, dtype=torch.float64)


def form(module: Quadratic) -> Tensor:
    return 0.5 * (module.values * module.w.square()).sum()


def painter() -> tuple[ImageNetwork, Any]:
    network = ImageNetwork.dense(4, 2, "tanh", seed=1).double()
    picture = scene("face").render(8)
    return network, lambda module: picture_error(module, picture)


def test_products_are_those_of_the_matrix() -> None:
    network, loss = painter()
    matrix, product = hessian(network, loss), hessian_product(network, loss)
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-8, atol=1e-10)
    for i in range(3):
        v = torch.randn(len(matrix), generator=generator(i, "v"), dtype=torch.float64)
        torch.testing.assert_close(product(v), matrix @ v, rtol=1e-8, atol=1e-10)


def test_top_eigenvalue_and_trace_are_those_of_the_matrix() -> None:
    network, loss = painter()
    values = torch.linalg.eigvalsh(hessian(network, loss))
    top = top_eigenvalue(network, loss)
    assert top.value == pytest.approx(float(values[-1]), rel=1e-4)
    assert top.low is not None
    assert top.high is not None
    assert top.low - 1e-9 <= float(values[-1]) <= top.high + 1e-9  # the certificate
    covered = 0
    for seed in range(20):
        trace = hessian_trace(network, loss, probes=40, seed=seed)
        assert trace.low is not None
        assert trace.high is not None
        covered += trace.low <= float(values.sum()) <= trace.high
    assert covered >= 16


def test_known_forms() -> None:
    values = [3.0, -7.0, 0.5]
    module = Quadratic(values)
    assert top_eigenvalue(module, form).value == pytest.approx(3.0)  # largest, not largest absolute
    assert hessian_trace(module, form, probes=3).value == pytest.approx(-3.5)  # exact: the matrix is diagonal
    rise = loss_rise(module, form, noise=0.1, draws=4000)
    assert rise.low is not None
    assert rise.high is not None
    assert rise.low <= 0.5 * 0.01 * sum(values) <= rise.high
    torch.testing.assert_close(module.w.detach(), torch.ones(3, dtype=torch.float64))  # put back


def test_one_weight_and_no_curvature() -> None:
    assert top_eigenvalue(Quadratic([2.5]), form).value == pytest.approx(2.5)
    flat = top_eigenvalue(Quadratic([0.0, 0.0]), form)
    assert flat.value == 0.0
    assert hessian_trace(Quadratic([0.0, 0.0]), form).value == 0.0


def test_masked_weights_have_no_curvature_and_take_no_noise() -> None:
    network, loss = painter()
    network.masks[1].fill_(False)
    network.masks[1][0, 0] = True
    matrix = hessian(network, loss)
    start = network.weights[0].numel()
    dead = matrix[start + 1 : start + network.weights[1].numel()]
    assert not dead.any()
    found = flatness(network, loss, probes=4, draws=4)
    assert found.loss == pytest.approx(float(loss(network).detach()))
    assert found.top.value is not None
    assert found.rise.known


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: top_eigenvalue(Quadratic([1.0]), form, tolerance=0.0), "tolerance"),
        (lambda: hessian_trace(Quadratic([1.0]), form, probes=1), "probes"),
        (lambda: loss_rise(Quadratic([1.0]), form, noise=0.0), "noise"),
        (lambda: loss_rise(Quadratic([1.0]), form, draws=1), "draws"),
        (lambda: flatness(Quadratic([1.0]), lambda m: m.w.repeat(2)), "loss"),
        (lambda: flatness(Quadratic([1.0]), lambda m: m.w.detach().sum()), "loss"),
        (lambda: flatness(Quadratic([float("nan")]), form), "loss"),
        (lambda: flatness(nn.Identity(), form), "module"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
