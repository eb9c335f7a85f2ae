"""FVU means one thing; every statistic is the same for any split into batches."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monoseme.core.code import Code
from monoseme.core.seeds import generator
from monoseme.evaluation.fidelity import fidelity, merge, tally

N, D, G, B = 120, 5, 7, 2


@pytest.fixture(scope="module")
def data():
    draw = generator(0, "fidelity")
    x = torch.randn(N, D, generator=draw, dtype=torch.float64) + 3
    dense = torch.randn(N, G, B, generator=draw, dtype=torch.float64)
    active = torch.rand(N, G, generator=draw) < 0.3
    active[:, 4] = False
    return x, Code.from_dense(dense * active[:, :, None], active), torch.arange(N) // 10


def numbers(x, x_hat, code, sample, sizes=(N,)):
    parts, start = [], 0
    for size in sizes:
        rows = slice(start, start + size)
        parts.append(
            tally(x[rows], x_hat[rows], code.select_rows(start, start + size), sample[rows], x.double().mean(0))
        )
        start += size
    return fidelity(merge(parts))


def ends(outcome) -> tuple[float, float]:
    assert outcome.low is not None
    assert outcome.high is not None
    return outcome.low, outcome.high


def test_the_mean_scores_one_and_the_row_itself_zero(data):
    x, code, sample = data
    assert numbers(x, x.mean(0).expand_as(x), code, sample)["fvu"].value == pytest.approx(1, abs=1e-12)
    assert numbers(x, x, code, sample)["fvu"].value == 0


def test_a_constant_offset_is_punished(data):
    x, code, sample = data
    expected = N * D * 100.0**2 / float((x - x.mean(0)).square().sum())
    assert numbers(x, x + 100, code, sample)["fvu"].value == pytest.approx(expected)


def test_l0_dims_dead_and_intervals(data):
    x, code, sample = data
    got = numbers(x, 0.5 * x, code, sample)
    per_row = code.l0.double()
    assert got["l0"].value == pytest.approx(float(per_row.mean()))
    assert got["active_dims"].value == pytest.approx(B * float(per_row.mean()))
    assert got["dead_share"].value == pytest.approx(1 / G)
    assert "1 of 7 blocks fire on none of 120 rows of 12 samples" in got["dead_share"].note
    for outcome in got.values():
        low, high = ends(outcome)
        assert outcome.value == pytest.approx((low + high) / 2, abs=(high - low) / 2)
    # by sample, not by row: the spread of 12 sample means
    means = per_row.reshape(12, 10).mean(1).numpy()
    low, high = ends(got["l0"])
    assert high - low == pytest.approx(2 * 1.96 * means.std() / np.sqrt(12), rel=0.25)
    assert got["l0"].n == 12


@settings(deadline=None, max_examples=15)
@given(cuts=st.sets(st.integers(1, N - 1), max_size=12))
def test_any_split_into_batches_gives_the_same_numbers(data, cuts):
    x, code, sample = data
    edges = [0, *sorted(cuts), N]
    whole = numbers(x, 0.5 * x, code, sample)
    split = numbers(x, 0.5 * x, code, sample, [b - a for a, b in pairwise(edges)])
    for name, outcome in whole.items():
        assert split[name].value == pytest.approx(outcome.value, rel=1e-12)
        assert split[name].low == pytest.approx(outcome.low, rel=1e-9)


def test_batches_of_one_in_any_order(data):
    x, code, sample = data
    parts = [
        tally(x[i : i + 1], 0.5 * x[i : i + 1], code.select_rows(i, i + 1), sample[i : i + 1], x.mean(0))
        for i in torch.randperm(N, generator=generator(1, "order")).tolist()
    ]
    whole, split = numbers(x, 0.5 * x, code, sample), fidelity(merge(parts))
    for name in whole:
        assert split[name].value == pytest.approx(whole[name].value, rel=1e-10)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_unit_of_the_rows_does_not_matter(data, unit):
    x, code, sample = data
    one, other = numbers(x, 0.5 * x, code, sample), numbers(unit * x, unit * 0.5 * x, code, sample)
    assert other["fvu"].value == pytest.approx(one["fvu"].value, rel=1e-12)
    assert other["l0"] == one["l0"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_digits_survive_a_mean_a_thousand_times_the_spread(data, dtype):
    _, code, sample = data
    spread = torch.randn(N, D, generator=generator(2, "far"))
    x = (1000 + (8 * spread if dtype == torch.bfloat16 else spread)).to(dtype)  # bfloat16 steps are 4 wide at 1,000
    wide = x.double()
    x_hat = wide.mean(0) + 0.5 * (wide - wide.mean(0))
    assert numbers(x, x_hat, code, sample)["fvu"].value == pytest.approx(0.25, rel=1e-9)
    assert numbers(x, wide.mean(0).expand_as(wide), code, sample)["fvu"].value == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1000.1])
def test_of_constant_rows_the_fvu_is_unknown_and_says_why(data, value):
    _, code, sample = data
    x = torch.full((N, D), value, dtype=torch.float64)
    fvu = numbers(x, x + 1, code, sample, (50, 70))["fvu"]
    assert fvu.value is None
    assert "do not vary" in fvu.note


def test_of_one_row_the_fvu_is_unknown_and_the_rest_known(data):
    x, code, sample = data
    got = fidelity(tally(x[:1], x[:1], code.select_rows(0, 1), sample[:1], x[0]))
    assert got["fvu"].value is None
    assert got["l0"].value == float(code.l0[0])
    assert got["l0"].low is None
