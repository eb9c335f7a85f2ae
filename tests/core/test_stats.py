import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from monoseme.core.seeds import derive, generator, rng
from monoseme.core.stats import moments, ratio_interval, wilson


@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, 40), max_size=4), seed=st.integers(0, 20))
def test_moments_do_not_depend_on_the_split(cuts, seed):
    x = torch.randn(40, 3, dtype=torch.float64, generator=generator(seed)) + 1000
    edges = [0, *sorted(cuts), 40]
    total = moments(x[:0])
    for low, high in itertools.pairwise(edges):
        total = total.merge(moments(x[low:high]))
    assert total.count == 40
    assert_close(total.mean, x.mean(0))
    assert_close(total.centred, (x - x.mean(0)).square().sum(0))


def test_moments_keep_their_digits_far_from_zero():
    x = torch.randn(5000, 2, generator=generator(0)) + 1000.0
    wide = x.double()
    assert_close(moments(x).centred, (wide - wide.mean(0)).square().sum(0), rtol=1e-9, atol=0)


def test_ratio_interval_covers_the_truth_about_as_often_as_it_says():
    hits = 0
    for seed in range(60):
        stream = rng(seed, "coverage")
        denominator = stream.uniform(1, 3, 40)
        numerator = denominator * 0.5 + stream.normal(0, 0.3, 40)
        low, high = ratio_interval(numerator, denominator, draws=300, seed=seed)
        hits += low <= 0.5 <= high
    assert 50 <= hits <= 60


def test_no_interval_from_one_sample():
    assert np.isnan(ratio_interval(np.ones(1), np.ones(1))).all()


def test_wilson_at_the_ends():
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(0, 20)
    assert low == pytest.approx(0)
    assert 0 < high < 0.2


def test_streams_never_touch_the_global_generators():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    torch.rand(3, generator=generator(1, "a"))
    rng(1, "a").random(3)
    assert_close(torch.get_rng_state(), torch_before)
    np.testing.assert_equal(np.random.get_state(legacy=False), numpy_before)  # noqa: NPY002
    assert derive(1, "a") != derive(1, "b") != derive(2, "b")
