"""Correlations against scipy's, their resamples against scipy's, and what is not known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.interaction.correlation import correlate, correlations
from monoseme.interaction.regimes import peak, regimes
from monoseme.interaction.shape_table import ShapeTable


def pairs(seed: int, n: int, r: float = -0.8) -> tuple[np.ndarray, np.ndarray]:
    z = rng(seed, "pairs").multivariate_normal([0, 0], [[1, r], [r, 1]], n)
    return z[:, 0].copy(), z[:, 1].copy()


def test_values_are_scipys_with_ties_too():
    x, y = pairs(0, 30)
    for a, b in ((x, y), (x.round(0), y.round(0)), (1e6 + x, 1e-9 * y)):
        pearson, spearman = correlate(a, b)
        assert pearson.value == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-7)
        assert spearman.value == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-12)


def test_intervals_are_scipys_up_to_the_draws():
    x, y = pairs(1, 40)
    for found, statistic in zip(correlate(x, y, draws=4000), (stats.pearsonr, stats.spearmanr), strict=True):
        again = stats.bootstrap(
            (x, y), lambda a, b, f=statistic: f(a, b)[0], paired=True, vectorized=False,
            n_resamples=1000, method="percentile", rng=0,
        ).confidence_interval  # fmt: skip
        z = np.arctanh(np.array([found.value, again.low, again.high], dtype=float))
        ends = np.tanh(z[0] + np.sqrt(40 / 37) * (z[1:] - z[0]))
        assert (found.low, found.high) == pytest.approx(tuple(ends), abs=0.03)


@pytest.mark.parametrize("n", [6, 12])
def test_intervals_cover_about_as_often_as_the_docstring_says(n: int):
    hits = 0
    for draw in range(400):
        pearson, _ = correlate(*pairs(draw, n), draws=300, seed=draw)
        assert pearson.low is not None
        assert pearson.high is not None
        hits += pearson.low <= -0.8 <= pearson.high
    assert 0.90 <= hits / 400 <= 0.97


def test_what_only_follows_the_budget_does_not_count():
    stream = rng(0, "budgets")
    label = np.repeat([0.0, 1.0, 2.0], 20)
    x, y = label + 0.1 * stream.standard_normal(60), label + 0.1 * stream.standard_normal(60)
    pooled, within = correlate(x, y, label), correlate(x, y, label, centred=True)
    assert pooled[0].value is not None
    assert pooled[0].value > 0.9
    for outcome in within:
        assert outcome.low is not None
        assert outcome.high is not None
        assert outcome.low < 0 < outcome.high
    by_hand = [np.concatenate([z[label == k] - z[label == k].mean() for k in range(3)]) for z in (x, y)]
    assert within[0].value == pytest.approx(stats.pearsonr(*by_hand)[0])
    ranks = [np.concatenate([stats.rankdata(z[label == k]) - 10.5 for k in range(3)]) for z in (x, y)]
    assert within[1].value == pytest.approx(stats.pearsonr(*ranks)[0])


def test_not_known():
    x, y = pairs(2, 8)
    for outcome in correlate(x[:3], y[:3]):
        assert outcome.value is None
        assert "3 pairs" in outcome.note
    for outcome in correlate(np.full(8, 0.1), y):
        assert outcome.value is None
        assert "constant" in outcome.note
    # equal values whose mean is not exactly one of them are constant all the same
    assert correlate(np.full(8, 0.1), y, np.repeat([0.0, 1.0], 4), centred=True)[0].value is None
    four = correlate(x[:4], y[:4])[0]
    assert four.known
    assert four.low is None
    holes = x.copy()
    holes[[0, 3]] = np.nan, np.inf
    left = correlate(holes, y)[0]
    assert left.n == 6
    assert "2 without a value" in left.note
    assert left.value == pytest.approx(stats.pearsonr(np.delete(x, [0, 3]), np.delete(y, [0, 3]))[0])


def test_columns_of_different_length():
    with pytest.raises(UserError, match="y must have one value") as error:
        correlate(np.zeros(4), np.zeros(5))
    assert "\n" not in str(error.value)


def table() -> ShapeTable:
    stream = rng(0, "table")
    budget = np.repeat([1e5, 2e5], 18)
    depth = np.tile(np.repeat([1.0, 2, 3, 4, 6, 8], 3), 2)
    seed = np.tile(np.arange(3), 12)
    loss = np.log(depth) + budget / 1e5
    numbers = {
        "test_loss": loss + 0.01 * stream.standard_normal(36),
        "ratio_out": 0.9 - 0.02 * loss + 0.001 * stream.standard_normal(36),
        "aofe_out": 10.0**loss,
    }
    return ShapeTable(budget, depth, np.full(36, 48.0), seed, numbers)


def test_of_a_sweep_over_means_of_seeds():
    found = correlations(table(), ("ratio_out", "log10 aofe_out"), draws=200)
    assert [(c.number, c.scope, c.budget) for c in found[:4]] == [
        ("ratio_out", "budget", 1e5),
        ("ratio_out", "budget", 2e5),
        ("ratio_out", "pooled", None),
        ("ratio_out", "within", None),
    ]
    assert len(found) == 8
    assert found[0].pearson.n == 6
    assert found[2].pearson.n == 12
    assert all(c.pearson.value is not None and c.pearson.value < -0.9 for c in found[:4])
    assert found[4].pearson.value == pytest.approx(1, abs=0.01)
    with pytest.raises(UserError, match="Did you mean ratio_out"):
        correlations(table(), ("ratio_ou",))


SIZES = np.array([3.0, 10, 30, 100, 200, 500, 1000, 2000, 5000, 10000, 20000])
LOSS = np.array([1.0, 1.01, 1.0, 1.03, 1.2, 1.5, 1.05, 0.995, 0.993, 0.993, 0.993])


def test_regimes_on_either_side_of_the_peak():
    size, loss = np.repeat(SIZES, 2), np.repeat(LOSS, 2) + np.tile([-0.001, 0.001], 11)
    ratio = np.where(size <= 500, 0.5 + 0.3 * np.sin(size), 2 - 1.1 * loss)
    low, high = regimes(size, loss, ratio)
    assert (low.name, high.name) == ("memorising", "beyond")
    assert (low.sizes[-1], high.sizes[0]) == (500, 1000)
    assert high.pearson.value == pytest.approx(-1, abs=1e-3)
    x = np.array([ratio[size == s].mean() for s in SIZES[:6]])
    assert low.pearson.value == pytest.approx(stats.pearsonr(x, LOSS[:6])[0])
    assert low.ratio.value == pytest.approx(x.mean())
    assert (low.ratio.n, low.ratio.n_unit) == (6, "sizes")
    assert regimes(size, loss, ratio, threshold=100)[0].sizes == (3, 10, 30, 100)
    assert regimes(size, loss, ratio, threshold=1e9)[1].ratio.value is None


def test_the_peak_is_of_the_means():
    at, values = peak(np.array([1.0, 1, 2, 2]), np.array([9.0, 0, 5, 6]))
    assert at == 2
    assert values.tolist() == [5, 6]
    with pytest.raises(UserError, match="value must hold a finite number"):
        peak(np.array([1.0]), np.array([np.nan]))
    with pytest.raises(UserError, match="ratio must have one value"):
        regimes(SIZES, LOSS, LOSS[:2])
