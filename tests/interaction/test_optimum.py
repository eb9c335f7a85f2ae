"""The best shape: exact on curves it can hold, an edge that is called one, intervals that cover."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.optimum import _minima, optimum
from monoseme.interaction.shape_table import ShapeTable

TWELVE = np.array(
    [1 / 240, 2 / 170, 3 / 140, 4 / 120, 5 / 108, 6 / 100, 8 / 86, 10 / 76, 12 / 72, 16 / 60, 20 / 56, 0.48]
)
SIX = np.array([1 / 72, 2 / 56, 3 / 44, 4 / 40, 6 / 32, 8 / 28])
TRUE = 0.05


def curve(ratio: np.ndarray, lopsided: float = 0.004, at: float = TRUE) -> np.ndarray:
    x = np.log(ratio) - math.log(at)
    return 1.2 + 0.02 * x**2 + lopsided * x**3


@pytest.mark.parametrize(("degree", "lopsided"), [(2, 0.0), (3, 0.0), (3, 0.004), (3, -0.003)])
@pytest.mark.parametrize("ratio", [SIX, TWELVE])
def test_a_curve_of_its_own_kind_gives_its_minimum(ratio: np.ndarray, degree: int, lopsided: float):
    found = optimum(ratio, curve(ratio, lopsided), degree=degree)
    assert found.fitted.value == pytest.approx(TRUE, rel=1e-9)
    assert found.fitted.low == pytest.approx(TRUE, rel=1e-6)
    assert found.fitted.high == pytest.approx(TRUE, rel=1e-6)
    assert found.fit is not None
    inside = ratio[(ratio >= found.fit.low * 0.999) & (ratio <= found.fit.high * 1.001)]
    assert len(inside) == min(7, len(ratio))
    np.testing.assert_allclose(found.fit(inside), curve(inside, lopsided), rtol=1e-12)


def slow_minimum(x: np.ndarray, y: np.ndarray, degree: int, window: int) -> float:
    """Fit by numpy, take the roots of the derivative, check with a search, and see which end is the answer."""
    start = min(max(int(y.argmin()) - window // 2, 0), len(x) - window)
    part = slice(start, start + window)
    fit = np.polynomial.Polynomial.fit(x[part], y[part], degree)
    for root in fit.deriv().roots():
        at = float(root.real)
        if abs(root.imag) < 1e-12 and fit.deriv(2)(at) > 0 and x[0] <= at <= x[-1]:
            near: Any = minimize_scalar(fit, bounds=(at - 0.01, at + 0.01), method="bounded", options={"xatol": 1e-12})
            assert abs(near.x - at) < 1e-5
            return at
    return -np.inf if fit(x[part][0]) < fit(x[part][-1]) else np.inf


@pytest.mark.parametrize("degree", [2, 3])
def test_minima_of_many_rows_are_those_of_each(degree: int):
    x = np.log(TWELVE)
    noise = rng(0, "minima").standard_normal((300, 12))
    y = curve(TWELVE)[None] + np.linspace(0.001, 0.3, 300)[:, None] * noise
    fast = _minima(x, y, degree, 7)
    slow = np.array([slow_minimum(x, row, degree, 7) for row in y])
    np.testing.assert_allclose(fast, slow, rtol=1e-8)
    assert {-np.inf, np.inf} < set(fast.tolist())


@pytest.mark.parametrize(("lopsided", "seeds"), [(0.0, 1), (0.0, 3), (0.004, 3)])
@pytest.mark.parametrize("ratio", [SIX, TWELVE])
def test_intervals_cover_the_minimum(ratio: np.ndarray, lopsided: float, seeds: int):
    hits, known = 0, 0
    for draw in range(200):
        trials = np.repeat(ratio, seeds)
        loss = curve(trials, lopsided) + 0.005 * rng(draw, "coverage").standard_normal(len(trials))
        fitted = optimum(trials, loss, draws=200, seed=draw).fitted
        known += fitted.known
        hits += fitted.low is not None and fitted.high is not None and fitted.low <= TRUE <= fitted.high
    assert known > 190
    assert 0.88 <= hits / known <= 0.995


def test_beyond_the_range_is_not_known_and_says_where():
    for at, word in ((0.0005, "wider and shallower"), (8.0, "narrower and deeper")):
        found = optimum(TWELVE, curve(TWELVE, 0.0, at), degree=2)
        assert found.fitted.value is None
        assert "at the edge" in found.fitted.note
        assert word in found.fitted.note
    assert found.best.value == pytest.approx(TWELVE[-1])
    assert "the largest tested" in found.basin_high.note


def test_a_hump_has_no_minimum():
    loss = -curve(TWELVE, 0.0)
    loss[0] -= 1
    found = optimum(TWELVE, loss, degree=2)
    assert found.fitted.value is None
    assert "wider and shallower" in found.fitted.note


def test_an_interval_that_runs_out_of_the_range_is_called_open():
    ratio = np.repeat(TWELVE, 3)
    loss = curve(ratio, 0.0, 1.3 * TWELVE[0]) + 0.03 * rng(1, "open").standard_normal(len(ratio))
    found = optimum(ratio, loss, degree=2)
    assert found.fitted.known
    assert "open: " in found.fitted.note
    assert "below the tested range" in found.fitted.note
    assert found.fitted.low == pytest.approx(TWELVE[0])
    assert (found.draws == 0).any()


def test_the_order_of_trials_does_not_matter():
    ratio = np.repeat(TWELVE, 3)
    loss = curve(ratio) + 0.01 * rng(2, "order").standard_normal(len(ratio))
    first = optimum(ratio, loss)
    # whole shapes change places; seeds of a shape keep their order, by which they are drawn
    order = np.concatenate([np.arange(3) + 3 * i for i in rng(0, "permute").permutation(12)])
    second = optimum(ratio[order], loss[order])
    assert first.outcomes() == second.outcomes()


def test_one_seed_widens_to_the_residuals_and_more_seeds_narrow():
    width = {}
    for seeds in (1, 3, 12):
        each = []
        for draw in range(20):
            ratio = np.repeat(TWELVE, seeds)
            loss = curve(ratio) + 0.006 * rng(draw, "width").standard_normal(len(ratio))
            fitted = optimum(ratio, loss, draws=300).fitted
            assert fitted.low is not None
            assert fitted.high is not None
            each.append(math.log(fitted.high / fitted.low))
        width[seeds] = float(np.mean(each))
    assert width[1] > 1.3 * width[3] > 1.3 * 1.5 * width[12]


def test_a_shape_with_one_seed_borrows_the_spread_of_the_others():
    ratio = np.concatenate([np.repeat(SIX, 3), [0.05]])
    loss = curve(ratio) + 0.01 * rng(3, "borrow").standard_normal(len(ratio))
    alone = optimum(ratio, loss)
    tight = optimum(np.repeat(SIX, 3), curve(np.repeat(SIX, 3)))
    assert alone.fitted.n == 7
    assert tight.fitted.low == pytest.approx(tight.fitted.high)
    assert alone.fitted.low != alone.fitted.high


def test_lost_trials_are_counted():
    ratio = np.repeat(TWELVE, 2)
    loss = curve(ratio)
    loss[3] = np.nan
    loss[[10, 11]] = np.inf
    found = optimum(ratio, loss)
    assert "3 trials without a loss" in found.fitted.note
    assert found.fitted.n == 11


def test_the_basin():
    loss = np.array([1.3, 1.009, 1.0, 1.2, 1.005, 1.4])
    found = optimum(SIX, loss)
    assert (found.basin_low.value, found.basin_high.value) == pytest.approx((SIX[1], SIX[4]))
    assert "1 shapes between are not" in found.basin_low.note
    assert found.best.value == pytest.approx(SIX[2])
    assert found.best.low is None  # one seed says nothing of the choice


def test_few_shapes_have_a_lowest_but_no_fit():
    found = optimum(SIX[:4], curve(SIX[:4]))
    assert found.fitted.value is None
    assert "4 shapes" in found.fitted.note
    assert found.fit is None
    assert found.best.known


@pytest.mark.parametrize(
    ("ratio", "loss", "options", "word"),
    [
        (SIX, curve(SIX)[:3], {}, "loss must have one value"),
        (-SIX, curve(SIX), {}, "ratio must be positive"),
        (SIX[:1], curve(SIX)[:1], {}, "ratio must hold at least two shapes"),
        (SIX, np.full(6, np.nan), {}, "ratio must hold at least two shapes"),
        (SIX, curve(SIX), {"degree": 4}, "degree must be 2 or 3"),
        (SIX, curve(SIX), {"window": 4}, "window must be at least 5"),
    ],
)
def test_mistakes_are_one_line(ratio: np.ndarray, loss: np.ndarray, options: dict[str, int], word: str):
    with pytest.raises(UserError, match=word) as error:
        optimum(ratio, loss, **options)
    assert "\n" not in str(error.value)


def budgets(power: float, seeds: int = 3, noise: float = 0.003) -> ShapeTable:
    """A sweep of four budgets whose best R goes as budget^power."""
    sizes = (6e4, 1.2e5, 2.4e5, 4.8e5)
    rows = [(n, d, d / r, s) for n in sizes for d, r in enumerate(TWELVE, 1) for s in range(seeds)]
    budget, depth, width, seed = (np.array(column) for column in zip(*rows, strict=True))
    best = TRUE * (budget / 2e5) ** power
    x = np.log(depth / width) - np.log(best)
    loss = 1.2 + 0.02 * x**2 + noise * rng(0, "budgets").standard_normal(len(x))
    return ShapeTable(budget, depth.astype(float), width, seed.astype(np.int64), {"test_loss": loss})


@pytest.mark.parametrize("power", [0.0, -0.3])
def test_the_slope_over_budgets(power: float):
    slope = stability(optima(budgets(power)))
    assert slope.low is not None
    assert slope.high is not None
    assert slope.low <= power <= slope.high
    assert slope.high - slope.low < 0.3
    assert slope.n == 4


def test_budgets_without_an_optimum_are_left_out_and_counted():
    table = budgets(0.0)
    steep = np.where(table.budget == 6e4, np.log(table.ratio), table.column("test_loss"))
    found = optima(ShapeTable(table.budget, table.depth, table.width, table.seed, {"test_loss": steep}))
    assert not found[6e4].fitted.known
    assert "1 budget without a known optimum left out" in stability(found).note
    few = stability({budget: found[budget] for budget in (6e4, 1.2e5, 2.4e5)})
    assert few.value is None
    assert "2 budgets" in few.note
