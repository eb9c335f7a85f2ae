"""Bootstrap over samples: many quantities at once equal one at a time, with the right width, or none."""

import math

import numpy as np
import pytest

from monoseme.core.seeds import rng
from monoseme.core.stats import ratio_interval, ratio_intervals


def one_at_a_time(num, den, draws, seed):
    """The obvious loop over resamples."""
    stream = rng(seed, "ratio_interval")
    ratios = []
    for _ in range(draws):
        picked = stream.integers(0, len(num), len(num))
        ratios.append(num[picked].sum() / den[picked].sum())
    return np.quantile(ratios, [0.025, 0.975])


def test_all_at_once_equal_the_obvious_loop():
    stream = rng(0, "data")
    num, den = stream.uniform(size=(40, 3)), stream.uniform(1, 2, size=(40, 3))
    low, high = ratio_intervals(num, den, draws=200, seed=7)
    for q in range(3):
        np.testing.assert_allclose([low[q], high[q]], one_at_a_time(num[:, q], den[:, q], 200, 7), rtol=1e-12)


def test_a_shared_denominator_is_broadcast():
    stream = rng(1, "data")
    num, den = stream.uniform(size=(30, 4)), stream.uniform(1, 2, size=(30, 1))
    shared, repeated = ratio_intervals(num, den), ratio_intervals(num, np.repeat(den, 4, axis=1))
    np.testing.assert_allclose(shared, repeated)


def test_the_interval_of_many_samples_has_the_right_width():
    x = rng(2, "data").normal(size=30_000)
    low, high = ratio_interval(x, np.ones_like(x))
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt(30_000), rel=0.15)
    assert low < x.mean() < high


def test_no_interval_from_one_sample_or_from_nothing():
    assert all(map(math.isnan, ratio_interval(np.ones(1), np.ones(1))))
    assert all(map(math.isnan, ratio_interval(np.ones(5), np.zeros(5))))
