"""One variable: the criterion against brute force on 288 cells, and its exceptions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from monoseme import UserError
from monoseme.optimality.rank_one import rank_one

LAWS = {
    "constant": lambda r, n: np.full(n, 1.0),
    "uniform": lambda r, n: r.uniform(0.2, 1.8, n),
    "exponential": lambda r, n: r.exponential(1.0, n),
    "normal": lambda r, n: np.abs(1 + 0.5 * r.standard_normal(n)),
}


def brute(x: np.ndarray, lam: float) -> tuple[float, float, float]:
    """Losses of +, -, and a pair, each minimised over the bias on a fine grid and then polished."""

    def up(b: float, sign: float) -> float:
        t = sign * (x - b)
        return float(np.where(t > lam, 2 * lam * t - lam**2, t * t).mean())

    def pair(b: float) -> float:
        t = np.abs(x - b)
        return float(np.where(t > lam, 2 * lam * t - lam**2, t * t).mean())

    best = []
    for loss in (lambda b: up(b, 1.0), lambda b: up(b, -1.0), pair):
        low, high = x.min() - lam, x.max() + lam
        best.append(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).fun)
    return tuple(best)


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
