"""Interventions against doing it by hand; what they cost, against loops; wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from torch import nn

from monoseme.core.code import Code
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.steering.effects import effects, matched_strength, naturalness
from monoseme.steering.intervene import Direction, edited, steer

D, G, B = 6, 4, 2


class Blocks:
    """Orthonormal blocks; the two of most presence are active."""

    def __init__(self) -> None:
        basis = torch.linalg.qr(torch.randn(8, D, generator=generator(0, "atoms"), dtype=torch.float64).T).Q.T
        self.atoms = torch.cat(
            [basis, torch.randn(2, D, generator=generator(1, "atoms"), dtype=torch.float64)]
        ).reshape(G, B, D)
        self.bias = torch.full((D,), 0.1, dtype=torch.float64)

    def encode(self, x: torch.Tensor, refine: object = None) -> Code:
        z = torch.einsum("nd,gbd->ngb", x - self.bias, self.atoms)
        mask = torch.zeros(len(x), G, dtype=torch.bool).scatter_(1, z.norm(dim=2).topk(2).indices, True)
        return Code.from_dense(z * mask[:, :, None])

    def decode(self, code: Code) -> torch.Tensor:
        return torch.einsum("ngb,gbd->nd", code.to_dense(), self.atoms) + self.bias


def model() -> HookedModel:
    net = nn.Sequential(nn.Linear(5, D), nn.Tanh(), nn.Linear(D, 7)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.randn(p.shape, generator=generator(i, "net"), dtype=torch.float64))
    return HookedModel(net, ModelFacts("tiny"))


X = torch.randn(3, 4, 5, generator=generator(9, "x"), dtype=torch.float64)
TO = torch.tensor([1.5, -2.0], dtype=torch.float64)


def by_hand(x: torch.Tensor, f: Blocks, block: int, to: torch.Tensor | None, mode: str) -> torch.Tensor:
    made = x.clone()
    for i, row in enumerate(x):
        code = f.encode(row[None]).to_dense()[0]
        fires, there = bool(code[block].any()), code[block] @ f.atoms[block]
        target = torch.zeros(D, dtype=torch.float64) if to is None else to @ f.atoms[block]
        if mode == "add":
            made[i] = row + target
        elif mode == "replace" or fires:
            made[i] = row - there + target
    return made


@pytest.mark.parametrize("mode", ["replace", "add", "clamp", "ablate"])
@pytest.mark.parametrize("block", range(G))
def test_rows_are_moved_as_by_hand(mode: str, block: int) -> None:
    f, to = Blocks(), None if mode == "ablate" else TO
    rows = torch.randn(20, D, generator=generator(3, "rows"), dtype=torch.float64)
    wanted = by_hand(rows, f, block, to, mode)
    torch.testing.assert_close(edited(rows, f, block=block, to=to, mode=mode), wanted)
    torch.testing.assert_close(edited(rows.reshape(4, 5, D), f, block=block, to=to, mode=mode), wanted.reshape(4, 5, D))


def test_a_model_runs_on_with_the_moved_rows_and_is_as_before_afterwards() -> None:
    net, f = model(), Blocks()
    clean = net(X)
    inside = net.run(X, at="1")
    with steer(net, "1", f, block=1, to=TO, tokens=[0, -1]):
        found = net(X)
    moved = inside.clone()
    for t in (0, 3):
        moved[:, t] = by_hand(inside[:, t], f, 1, TO, "replace")
    torch.testing.assert_close(found, net.module[2](moved).detach())  # pyright: ignore
    torch.testing.assert_close(net(X), clean)
    with pytest.raises(RuntimeError, match="stop"), steer(net, "1", f, block=1, to=TO):
        raise RuntimeError("stop")
    torch.testing.assert_close(net(X), clean)


def test_only_the_chosen_passes_are_moved() -> None:
    net, f = model(), Blocks()
    clean = net(X)
    with steer(net, "1", f, block=1, to=TO, steps=[1]):
        passes = [net(X) for _ in range(3)]
    torch.testing.assert_close(passes[0], clean)
    torch.testing.assert_close(passes[2], clean)
    assert float((passes[1] - clean).abs().max()) > 0.1


def test_a_direction_is_added() -> None:
    net, v = model(), torch.randn(D, generator=generator(4, "v"), dtype=torch.float64)
    inside = net.run(X, at="1")
    with steer(net, "1", Direction(v, 0.7)):
        found = net(X)
    torch.testing.assert_close(found, net.module[2](inside + 0.7 * v).detach())  # pyright: ignore


def test_steering_twice_is_both() -> None:
    net, f = model(), Blocks()
    inside = net.run(X, at="1")
    with steer(net, "1", f, block=0, to=TO, mode="add"), steer(net, "1", Direction(f.atoms[2, 0])):
        found = net(X)
    wanted = inside + TO @ f.atoms[0] + f.atoms[2, 0]
    torch.testing.assert_close(found, net.module[2](wanted).detach())  # pyright: ignore


def test_effects_are_those_of_loops() -> None:
    before = torch.randn(5, 7, generator=generator(0, "before"), dtype=torch.float64)
    after = before + torch.randn(5, 7, generator=generator(1, "after"), dtype=torch.float64)
    found = effects(before, after, torch.tensor([1, 4]))
    for i in range(5):
        p, q = np.exp(before[i].numpy()), np.exp(after[i].numpy())
        p, q = p / p.sum(), q / q.sum()
        assert found.each["kl"][i] == pytest.approx(float((p * np.log(p / q)).sum()))
        assert found.each["target"][i] == pytest.approx(np.log((q[1] + q[4]) / (p[1] + p[4])))
        rest = [j for j in range(7) if j not in (1, 4)]
        a, b = p[rest] / p[rest].sum(), q[rest] / q[rest].sum()
        assert found.each["off_target"][i] == pytest.approx(np.abs(a - b).sum() / 2)
    assert found.kl.n == 5
    same = effects(before, before + 3, torch.tensor([1]))
    assert same.kl.value == pytest.approx(0, abs=1e-12)
    assert same.off_target.value == pytest.approx(0, abs=1e-12)


def test_a_strength_with_a_given_price_is_found() -> None:
    strength, price = matched_strength(lambda s: 0.3 * s**2, 2.7)
    assert strength == pytest.approx(3.0, rel=1e-3)
    assert price == pytest.approx(2.7, rel=1e-3)
    calls: list[float] = []

    def counted(s: float) -> float:
        calls.append(s)
        return 0.3 * s**2

    strength, price = matched_strength(counted, 2.7, tolerance=0.01)
    assert strength == pytest.approx(3.0, rel=0.011)
    assert price >= 2.7
    assert len(calls) < 14
    assert matched_strength(lambda s: s if s < 1 else 5.0, 2.7)[0] == pytest.approx(1.0, rel=1e-3)  # a jump
    check_refused(lambda: matched_strength(lambda s: s, 1.0, tolerance=0.0), "tolerance")
    check_refused(lambda: matched_strength(lambda s: min(s, 0.5), 0.6, most=10), "wanted")
    check_refused(lambda: matched_strength(lambda s: s, 0.0), "wanted")


def test_natural_rows_are_near_and_far_ones_far() -> None:
    rows = torch.randn(4000, 5, generator=generator(0, "rows"), dtype=torch.float64) * torch.tensor(
        [3.0, 1, 1, 0.2, 0.1]
    )
    own = naturalness(rows[:2000], rows[2000:3000], rows[3000:])
    assert own.edited == pytest.approx(0.95, abs=0.1)
    assert own.beyond == pytest.approx(0.05, abs=0.03)
    # a step that is small, and across the thinnest direction
    assert naturalness(rows[:2000], rows[2000:3000] + torch.tensor([0, 0, 0, 0, 1.0]), rows[3000:]).beyond > 0.95
    assert naturalness(rows[:2000], rows[2000:3000] + torch.tensor([1.0, 0, 0, 0, 0]), rows[3000:]).beyond < 0.15
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator(1, "q"), dtype=torch.float64)).Q
    turned = naturalness(7 * rows[:2000] @ turn, 7 * rows[2000:3000] @ turn, 7 * rows[3000:] @ turn)
    assert turned.edited == pytest.approx(own.edited, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"block": 9, "to": TO}, "block"),
        ({"to": TO}, "block"),
        ({"block": 1, "to": torch.ones(3)}, "to"),
        ({"block": 1}, "to"),
        ({"block": 1, "to": TO, "mode": "ablate"}, "to"),
        ({"block": 1, "to": TO, "mode": "push"}, "mode"),
        ({"block": 1, "to": TO, "tokens": [7]}, "tokens"),
        ({"block": 1, "to": TO, "tokens": slice(9, 12)}, "tokens"),
    ],
)
def test_wrong_edits_are_refused(options: Any, word: str) -> None:
    net = model()

    def run() -> None:
        with steer(net, "1", Blocks(), **options):
            net(X)

    check_refused(run, word)


def test_wrong_places_and_widths_are_refused() -> None:
    net = model()
    for at, what, word in (("9", Blocks(), "at"), ("2", Blocks(), "at"), ("1", Direction(torch.ones(4)), "at")):

        def run(at: str = at, what: Any = what) -> None:
            with steer(net, at, what, **({"block": 1, "to": TO} if isinstance(what, Blocks) else {})):
                net(X)

        check_refused(run, word)
    logits = torch.zeros(2, 3)
    check_refused(lambda: effects(logits, logits, torch.tensor([3])), "wanted")
    check_refused(lambda: effects(logits, logits, torch.arange(3)), "wanted")
    check_refused(lambda: effects(logits, torch.full((2, 3), torch.nan), torch.tensor([0])), "before")
    check_refused(lambda: naturalness(torch.ones(4, 2), torch.ones(1, 2), torch.ones(1, 2)), "rows")
    check_refused(lambda: naturalness(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2)), "rows")


def test_a_function_moves_every_code_from_where_it_is() -> None:
    f, x = Blocks(), torch.randn(20, D, generator=generator(3, "rows"), dtype=torch.float64)
    code = f.encode(x).to_dense()
    made = edited(x, f, block=1, to=lambda z: 2 * z + 1, mode="clamp")
    fires = code[:, 1].any(1)
    assert 0 < int(fires.sum()) < 20
    want = x + torch.where(fires[:, None], (code[:, 1] + 1) @ f.atoms[1], torch.zeros(D, dtype=torch.float64))
    torch.testing.assert_close(made, want)
    check_refused(lambda: edited(x, f, block=1, to=lambda z: z), "mode")
    check_refused(lambda: edited(x, f, block=1, to=lambda z: z[:, :1], mode="clamp"), "to")
