"""What `agop` refuses, what it leaves as it was, and what its numbers must not depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.interaction.small_nets import build
from torch import Tensor, nn

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.interaction import How, agop
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.kept import KeptFactors


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Rounded(nn.Module):
    """Nothing differentiable on the way."""

    def forward(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype) @ torch.ones(6, 3, dtype=x.dtype)


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).detach())


class Normalised(nn.Module):
    """BatchNorm without running statistics: samples mix, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


class NoForward(torch.autograd.Function):
    """A fused kernel: it has a backward pass, and no forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * grads[0]


class Fused(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return NoForward.apply(x)  # pyright: ignore[reportReturnType]


X = torch.randn(8, 6, generator=generator(0, "x"))

BAD: list[tuple[str, Callable[[], Any]]] = [
    ("side", lambda: agop(nn.Linear(6, 3), X, side="inputs")),
    ("probes", lambda: agop(nn.Linear(6, 3), X, probes=0)),
    ("of", lambda: agop(nn.Linear(6, 3), X, of="logit")),
    ("of", lambda: agop(nn.Linear(6, 3), X, of=lambda y, _: y.sum(1))),
    ("of", lambda: agop(nn.Linear(6, 3), X, of=lambda y, _: y.argmax(1, keepdim=True))),
    ("of", lambda: agop(Rounded(), X)),
    ("of", lambda: agop(Detached(), X, "first")),
    ("at", lambda: agop(nn.Sequential(nn.Linear(6, 3)), X, [])),
    ("at", lambda: agop(nn.Sequential(nn.Linear(6, 3)), X, ["0", "0"])),
    ("at", lambda: agop(nn.Sequential(nn.Linear(6, 3)), X, "0:middle")),
    ("inputs", lambda: agop(nn.Linear(6, 3), iter(()))),
    ("inputs", lambda: agop(nn.Linear(6, 3), X[:0])),
    ("inputs", lambda: agop(nn.Sequential(nn.Tanh(), nn.Linear(6, 3)), X * torch.nan)),
    ("inputs", lambda: agop(nn.Linear(6, 3), X.numpy())),
    ("targets", lambda: agop(nn.Linear(6, 3), X, of="loss")),
    ("targets", lambda: agop(nn.Linear(6, 3), X, of="loss", targets=torch.zeros(3, dtype=torch.long))),
    ("model", lambda: agop(Normalised(), X)),
    ("method", lambda: agop(nn.Linear(6, 3), X, probes=2, how=How(method="jvp"))),
    ("method", lambda: How(method="jacrev")),
    ("positions", lambda: How(positions="max")),
    ("memory", lambda: How(memory=10)),
    ("chunk", lambda: How(chunk=0)),
    ("view", lambda: agop(nn.Linear(6, 3), X, how=How(view="windows"))),
    ("window", lambda: agop(nn.Linear(6, 3), X, how=How(view="windows", window=2))),
]


@pytest.mark.parametrize(("argument", "call"), BAD, ids=[f"{i}-{a}" for i, (a, _) in enumerate(BAD)])
def test_bad_input_is_one_line_that_names_the_argument(argument: str, call: Callable[[], Any]) -> None:
    assert refused(call).split(" must")[0].split(",")[0].endswith(argument)


def test_an_unknown_place_is_named_with_one_that_is_near() -> None:
    assert "blocks.0" in refused(lambda: agop(build("gpt")[0], build("gpt")[1], "block.0", of="last"))


def test_integers_need_an_embedding() -> None:
    module, ids = build("gpt")
    said = refused(lambda: agop(module, ids, of="last"))
    assert "embedding" in said
    assert agop(module, ids, "wte", of="last").about.view == "one-hot"


def test_fused_operations_without_forward_mode() -> None:
    assert "vjp" in refused(lambda: agop(Fused(), X, side="output", probes=3))
    # exact: forward mode would be cheaper for two coordinates, but the other way is there
    few = torch.randn(5, 1, generator=generator(0, "few"))
    net = nn.Sequential(Fused(), nn.Linear(1, 9))
    found = agop(net, few, "0", side="output")
    assert found.about.method == "vjp"
    assert any("forward mode" in note for note in found.about.notes)


def test_training_mode_is_left_as_it_was_and_said() -> None:
    module, x = build("cnn")
    expected = agop(module, x, "head").matrix
    module.train()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    flags = [p.requires_grad for p in module.parameters()]
    found = agop(module, x, "head")
    assert module.training
    assert [p.requires_grad for p in module.parameters()] == flags
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())
    assert any("norm" in note for note in found.about.notes)
    np.testing.assert_array_equal(found.matrix, expected)


def test_everything_is_put_back_after_an_error() -> None:
    net = Detached().train()
    refused(lambda: agop(net, X, "first"))
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in net.modules())


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("probes", [None, 3])
def test_cuts_do_not_matter(side: str, probes: int | None) -> None:
    module, x = build("vit")
    places = ["block", "head"]
    whole = agop(module, x, places, side=side, probes=probes)
    pieces = agop(module, x, places, side=side, probes=probes, how=How(chunk=2))
    split = agop(module, iter([x[:3], x[3:]]), places, side=side, probes=probes)
    for at in places:
        np.testing.assert_allclose(pieces[at].matrix, whole[at].matrix, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(split[at].matrix, whole[at].matrix, rtol=1e-10, atol=1e-13)
        for name in ("aofe", "aofe_ratio"):
            one, other = (found[at].energy(name, population=True).value for found in (pieces, whole))
            assert one == pytest.approx(other, rel=1e-8)


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("law", ["rademacher", "gaussian"])
def test_sketches_are_unbiased(side: str, law: str) -> None:
    module, x = build("mlp")
    exact = agop(module, x, "2", side=side).matrix
    drawn = np.stack([agop(module, x, "2", side=side, probes=2, how=How(law=law, seed=s)).matrix for s in range(200)])
    error = drawn.std(0, ddof=1) / np.sqrt(len(drawn))
    assert (abs(drawn.mean(0) - exact) < 4.5 * error + 1e-12).all()


def test_both_directions_of_differentiation_agree() -> None:
    module, x = build("mlp")
    for side in ("input", "output"):
        forward, backward = (agop(module, x, "2", side=side, how=How(method=m)) for m in ("jvp", "vjp"))
        assert (forward.about.method, backward.about.method) == ("jvp", "vjp")
        np.testing.assert_allclose(forward.matrix, backward.matrix, rtol=1e-10)


def test_kept_factors_are_the_formed_sums() -> None:
    factors = torch.randn(50, 3, 11, generator=generator(3, "factors"), dtype=torch.float64)
    formed, kept = FactorSums(11), KeptFactors(11)
    for sums in (formed, kept):
        sums.add(factors[:20])
        sums.add(factors[20:])
    from monoseme.interaction.energies import spectrum
    from monoseme.interaction.population import population_energies

    twin = population_energies(formed)
    for name, one in kept.population().items():
        other = twin[name]
        for a, b in ((one.value, other.value), (one.low, other.low), (one.high, other.high)):
            assert a == pytest.approx(b, rel=1e-9), name
    np.testing.assert_allclose(kept.spectrum()[:11], spectrum(formed.matrix()), rtol=1e-9, atol=1e-12)
    assert kept.plug_in()["whole"] == pytest.approx(float(np.square(formed.matrix()).sum()), rel=1e-10)


def test_a_matrix_that_does_not_fit_is_not_formed_and_its_energies_are_the_same() -> None:
    module, ids = build("gpt")
    how = {"formed": How(view="flat"), "kept": How(view="flat", memory=1 << 20)}
    wide = nn.Sequential(nn.Linear(400, 3).double())
    x = torch.randn(9, 400, generator=generator(4, "wide"), dtype=torch.float64)
    formed, kept = agop(wide, x), agop(wide, x, how=how["kept"])
    assert formed.about.formed
    assert not kept.about.formed
    assert kept.aofe().value == pytest.approx(formed.aofe().value, rel=1e-9)
    assert "matrix" in refused(lambda: kept.matrix)
    assert agop(module, ids, "wte", of="last", how=how["formed"]).about.width == 66


@pytest.mark.parametrize("memory", [1 << 30, 1 << 20])
@pytest.mark.parametrize("power", [-80, 80])
def test_float32_neither_underflows_nor_overflows(power: int, memory: int) -> None:
    net = nn.Linear(400, 3)
    x = torch.randn(9, 400, generator=generator(4, "wide"))
    plain = agop(net, x, how=How(memory=memory))
    with torch.no_grad():
        net.weight.mul_(2.0**power)
    found = agop(net, x, how=How(memory=memory))
    assert found.about.formed == (memory > 1 << 20)
    assert found.aofe().value == pytest.approx((plain.aofe().value or 0) * 2.0 ** (4 * power), rel=1e-6)
    assert found.aofe_ratio().value == pytest.approx(plain.aofe_ratio().value, rel=1e-6)
    np.testing.assert_allclose(found.spectrum()[:3], plain.spectrum()[:3] * 4.0**power, rtol=1e-5)
