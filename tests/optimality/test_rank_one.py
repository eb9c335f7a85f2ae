"""One variable: the criterion against brute force on 288 cells, and its exceptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from monoseme import UserError
from monoseme.optimality.rank_one import rank_one
from monoseme.optimality.solve import solve
from monoseme.optimality.wide import wide_limit

LAWS = {
    "constant": lambda r, n: np.full(n, 1.0),
    "uniform": lambda r, n: r.uniform(0.2, 1.8, n),
    "exponential": lambda r, n: r.exponential(1.0, n),
    "normal": lambda r, n: np.abs(1 + 0.5 * r.standard_normal(n)),
}


def value(x: np.ndarray, b: float, lam: float, atoms: str) -> float:
    """Loss at a bias with the codes written out: z = (reach - λ)₊ on the atom that reaches the row."""
    reach = {"+": x - b, "-": b - x, "2": np.abs(x - b)}[atoms]
    z = np.maximum(reach - lam, 0)
    return float((np.square(reach - z) + 2 * lam * z).mean())


def brute(x: np.ndarray, lam: float) -> tuple[float, ...]:
    """Losses of +, -, and a pair, each (convex) minimised over the bias by golden section."""
    bounds, options = (x.min() - lam, x.max() + lam), {"xatol": 1e-12}
    found: list[Any] = [
        minimize_scalar(lambda b, on=on: value(x, b, lam, on), bounds=bounds, method="bounded", options=options)
        for on in "+-2"
    ]
    return tuple(f.fun for f in found)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("lam", [0.02, 0.1, 0.3, 0.8])
def test_the_criterion_agrees_with_brute_force(law: str, lam: float) -> None:
    r, verdicts = np.random.default_rng(7), set()
    for p in np.linspace(0.07, 0.97, 18):
        n = 400
        x = np.zeros(n)
        on = np.arange(n) < round(p * n)
        x[on] = LAWS[law](r, int(on.sum()))
        found, (up, down, pair) = rank_one(x, lam), brute(x, lam)
        np.testing.assert_allclose((found.loss_up, found.loss_down, found.loss_pair), (up, down, pair), atol=1e-8)
        np.testing.assert_allclose(
            (
                value(x, found.bias_up, lam, "+"),
                value(x, found.bias_down, lam, "-"),
                value(x, found.bias_pair, lam, "2"),
            ),
            (found.loss_up, found.loss_down, found.loss_pair),
            rtol=1e-12,
        )
        if on.any():
            assert (found.soft_active <= 0.5) == (on.mean() <= found.threshold)
        one = min(up, down)
        assert (found.verdict == "pair") == (one > pair + 1e-9), (law, lam, p)
        assert found.loss == pytest.approx(min(one, pair), abs=1e-8)
        verdicts.add(found.verdict)
    assert "single +" in verdicts


def test_a_pair_appears_above_half_when_off_is_far_from_on() -> None:
    r = np.random.default_rng(0)
    for p, verdict in ((0.4, "single +"), (0.5, "single +"), (0.51, "pair"), (0.9, "pair")):
        x = np.zeros(1000)
        x[: int(p * 1000)] = 1 + r.random(int(p * 1000))
        assert rank_one(x, 0.1).verdict == verdict


def test_two_values_never_need_a_pair() -> None:
    for p in (0.2, 0.5, 0.8):
        x = np.where(np.arange(100) < 100 * p, 3.0, 0.0)
        assert rank_one(x, 0.2).verdict != "pair"


def test_the_threshold_is_where_the_verdict_turns() -> None:
    for law, lam in (("constant", 0.6), ("uniform", 0.5), ("exponential", 0.6), ("normal", 0.8)):
        on = LAWS[law](np.random.default_rng(3), 300)
        p = rank_one(np.append(on, 0.0), lam).threshold
        assert p > 0.5
        for off, soft in ((int(300 * (1 / p - 1)) - 2, False), (int(300 * (1 / p - 1)) + 2, True)):
            if off >= 1:
                found = rank_one(np.append(on, np.zeros(off)), lam)
                assert found.threshold == pytest.approx(p)  # it knows the values, not how often they come
                assert (found.soft_active <= 0.5) == soft
    high = rank_one(np.append(1 + np.random.default_rng(3).random(300), 0.0), 0.1)
    assert high.threshold == 0.5  # all values are 2λ above: the 50 % rule, without λ
    assert rank_one(np.full(4, 3.0), 0.1).threshold == np.inf


def test_with_a_fixed_bias_one_atom_does_what_two_do_and_with_a_learned_one_it_does_not() -> None:
    for p in (0.3, 0.7, 0.9):
        x = np.where(np.arange(40) < 40 * p, 1 + np.random.default_rng(5).random(40), 0.0)
        one, two = (solve(x[:, None], k, 0.2, learned_bias=False, starts=6).loss for k in (1, 2))
        assert one == pytest.approx(two, rel=1e-9)
        found = rank_one(x, 0.2)
        one, two = (solve(x[:, None], k, 0.2, starts=6).loss for k in (1, 2))
        assert one == pytest.approx(min(found.loss_up, found.loss_down), rel=1e-6)
        assert two == pytest.approx(found.loss, rel=1e-6)
        assert (two < one * (1 - 1e-6)) == (found.verdict == "pair") == (p > 0.5)


def test_a_pair_appears_whatever_the_width_only_by_the_criterion() -> None:
    # the pair's loss is the wide limit: nothing is below it, and a single atom reaches it iff the criterion says so
    for seed in range(60):
        r = np.random.default_rng(seed)
        x, lam = r.standard_normal(12) * r.exponential(1, 12), float(r.uniform(0.05, 2))
        found, limit = rank_one(x, lam), wide_limit(x[:, None], lam, tol=1e-12)
        assert found.loss_pair == pytest.approx(limit.loss, rel=1e-9)
        single = min(found.loss_up, found.loss_down)
        assert (found.verdict == "pair") == (single > limit.loss * (1 + 1e-9))
        mirrored = rank_one(-x, lam)
        assert mirrored.loss_up == pytest.approx(found.loss_down)
        assert mirrored.bias_up == pytest.approx(-found.bias_down)


def test_the_members_of_a_pair_are_balanced() -> None:
    x = np.concatenate([np.zeros(30), 1 + np.random.default_rng(1).random(70)])
    for lam in (0.05, 0.2):
        found = rank_one(x, lam)
        t = x - found.bias
        inner = np.abs(t) <= lam
        assert found.verdict == "pair"
        assert (t > lam).mean() - (t < -lam).mean() == pytest.approx(-(t * inner).mean() / lam, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "lam", "name"),
    [
        (np.array([1, 2]), 0.1, "values"),
        (np.array([1.0, np.nan]), 0.1, "values"),
        (np.zeros(0), 0.1, "values"),
        (np.zeros((2, 2)), 0.1, "values"),
        (np.zeros(3), 0.0, "lam"),
        (np.zeros(3), -1.0, "lam"),
    ],
)
def test_bad_input_is_one_line(values: np.ndarray, lam: float, name: str) -> None:
    with pytest.raises(UserError, match=name) as caught:
        rank_one(values, lam)
    assert "\n" not in str(caught.value)
