"""Agreement between dictionaries: exact where it must be 1, at chance where there is nothing, against slow twins."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.evaluation import spans as spans_module
from monoseme.evaluation import stability
from monoseme.evaluation.cofiring import presence_correlation
from monoseme.evaluation.spans import similarity, spans


def gaussian(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed, "stability"), dtype=torch.float64)


def value(result, name):
    found = result[name].value
    assert found is not None
    return found


def rewritten(atoms, seed=1):
    """Blocks permuted, rotated inside and rescaled: the same spans."""
    order = torch.randperm(len(atoms), generator=generator(seed, "order"))
    turn = torch.linalg.qr(gaussian(len(atoms), atoms.shape[1], atoms.shape[1], seed=seed))[0]
    scale = 0.1 + gaussian(len(atoms), 1, 1, seed=seed).abs()
    return order, (scale * turn @ atoms)[order]


@pytest.mark.parametrize(("b", "c"), [(1, 1), (2, 2), (3, 3), (3, 2), (1, 4)])
def test_similarity_is_the_mean_squared_cosine_of_principal_angles(b, c):
    first, second = gaussian(6, b, 9), gaussian(5, c, 9, seed=1)
    got = similarity(spans(first), spans(second))
    for g in range(6):
        for h in range(5):
            angles = subspace_angles(first[g].T.numpy(), second[h].T.numpy())
            assert got[g, h] == pytest.approx(np.square(np.cos(angles)).sum() / max(b, c), abs=1e-12)


def test_chunks_change_nothing(monkeypatch):
    first, second = spans(gaussian(13, 2, 8)), spans(gaussian(11, 3, 8, seed=1))
    whole = similarity(first, second)
    monkeypatch.setattr(spans_module, "ENTRIES", 100)
    np.testing.assert_allclose(similarity(first, second), whole, rtol=0, atol=1e-15)


@pytest.mark.parametrize("b", [1, 3])
def test_identical_seeds_are_one(b):
    atoms = gaussian(20, b, 16)
    result = stability([atoms, atoms.clone()])
    assert value(result, "stability") == pytest.approx(1, abs=1e-12)
    assert value(result, "stability_best") == pytest.approx(1, abs=1e-12)
    assert value(result, "stability_share/0.9") == 1
    assert result.pairs[0].match.tolist() == list(range(20))


@pytest.mark.parametrize("b", [1, 2, 4])
def test_permuted_rotated_and_rescaled_dictionaries_are_one(b):
    atoms = gaussian(24, b, 20)
    order, other = rewritten(atoms)
    result = stability([atoms, other])
    np.testing.assert_allclose(result.pairs[0].similarity, 1, atol=1e-12)
    assert order[result.pairs[0].match].tolist() == list(range(24))
    as_trained = stability([atoms.float(), other.float()])
    assert value(as_trained, "stability") == pytest.approx(1, abs=1e-6)


def test_the_sign_counts_for_nonnegative_scalars_only():
    atoms = gaussian(10, 1, 40)
    assert value(stability([atoms, -atoms]), "stability") == pytest.approx(1)
    apart = stability([atoms, -atoms], sign="nonneg")
    assert value(apart, "stability") < 0.2
    assert value(stability([atoms, atoms], sign="nonneg"), "stability") == pytest.approx(1)
    planes = gaussian(5, 2, 12)
    assert value(stability([planes, -planes], sign="nonneg"), "stability") == pytest.approx(1)


def test_the_sign_is_read_from_the_featurizers(known):
    atoms = gaussian(6, 1, 40)
    free, nonneg = ([known(a, 2, sign=sign) for a in (atoms, -atoms)] for sign in ("free", "nonneg"))
    assert value(stability(free), "stability") == pytest.approx(1)
    assert value(stability(nonneg), "stability") < 0.2
    assert value(stability([free[0], nonneg[1]]), "stability") == pytest.approx(1)


@pytest.mark.parametrize(("b", "sign", "expected"), [(1, "free", 1 / 30), (3, "free", 3 / 30), (1, "nonneg", 1 / 60)])
def test_random_dictionaries_are_at_chance(b, sign, expected):
    first, second = gaussian(120, b, 30), gaussian(120, b, 30, seed=1)
    alike = similarity(spans(first), spans(second), nonneg=sign == "nonneg")
    assert alike.mean() == pytest.approx(expected, rel=0.05)
    result = stability([first, second], sign=sign)
    assert value(result, "chance_similarity") == pytest.approx(expected)
    # matched random dictionaries are well above any random pair, and equal to the floor that is drawn
    assert value(result, "stability") > 2 * expected
    assert value(result, "stability") == pytest.approx(value(result, "chance_stability"), rel=0.05)


def test_the_assignment_is_the_best_of_all_and_the_nearest_may_be_shared():
    first, second = gaussian(6, 2, 5), gaussian(6, 2, 5, seed=2)
    alike = similarity(spans(first), spans(second))
    result = stability([first, second])
    best = max(sum(alike[g, h] for g, h in enumerate(order)) for order in permutations(range(6)))
    assert 6 * value(result, "stability") == pytest.approx(best)
    assert value(result, "stability_best") == pytest.approx((alike.max(0).mean() + alike.max(1).mean()) / 2)
    np.testing.assert_allclose(result.pairs[0].best, alike.max(1))
    np.testing.assert_allclose(result.pairs[0].best_back, alike.max(0))


def test_other_numbers_of_blocks_leave_blocks_over():
    small, more = gaussian(8, 2, 12), gaussian(5, 2, 12, seed=3)
    for pair in ([small, torch.cat([more, small])], [torch.cat([more, small]), small]):
        result = stability(pair)
        assert value(result, "stability") == pytest.approx(1)
        assert result["stability"].n == 8
        assert value(result, "stability_best") < 1
        assert (result.pairs[0].match >= 0).sum() == 8
        assert np.isnan(result.pairs[0].similarity).sum() == len(pair[0]) - 8


def test_rank_deficient_blocks_count_by_their_span():
    plane = gaussian(1, 2, 10)
    line = torch.cat([plane[:, :1], 3 * plane[:, :1]], 1)  # two parallel atoms
    padded = torch.cat([plane, torch.zeros(1, 1, 10, dtype=torch.float64)], 1)
    assert spans(line).rank.tolist() == [1]
    assert spans(padded).rank.tolist() == [2]
    assert similarity(spans(line), spans(plane[:, :1]))[0, 0] == pytest.approx(1)
    assert similarity(spans(padded), spans(plane))[0, 0] == pytest.approx(1)
    assert similarity(spans(line), spans(plane))[0, 0] == pytest.approx(0.5)  # a line in a plane
    assert spans(line.float()).rank.tolist() == [1]


def test_dead_blocks_are_left_out():
    atoms, junk = gaussian(6, 2, 16), gaussian(4, 2, 16, seed=5)
    first, second = torch.cat([atoms, junk]), torch.cat([atoms, torch.zeros_like(junk)])
    density = np.array([0.1] * 6 + [0.0] * 4)
    result = stability([first, second], densities=[density, np.ones(10)])
    assert value(result, "stability") == pytest.approx(1)
    assert value(result, "stability_best") == pytest.approx(1)
    assert result["stability"].n == 6
    assert result.pairs[0].match[6:].tolist() == [-1] * 4
    assert np.isnan(result.pairs[0].best[6:]).all()
    assert "live blocks 6, 6" in result["stability"].note
    swapped = stability([first, gaussian(10, 2, 16, seed=6)], densities=[density, np.ones(10)])
    assert swapped["stability"].n == 6


def test_shares_and_intervals_of_two_seeds():
    first = torch.eye(20, dtype=torch.float64)[:10, None]
    second = first.clone()
    second[:4, 0] = torch.eye(20, dtype=torch.float64)[10:14]  # six of ten are found again
    result = stability([first, second], thresholds=(0.5,))
    share = result["stability_share/0.5"]
    assert share.value == pytest.approx(0.6)
    assert share.low is not None
    assert share.high is not None
    assert 0 < share.low < 0.6 < share.high < 1
    mean = result["stability"]
    assert mean.value == pytest.approx(0.6)
    assert mean.n_unit == "blocks"
    assert "not over seeds" in mean.note
    assert len(result.table().splitlines()) == len(result.outcomes)


def test_three_seeds_give_an_interval_over_seeds():
    base = gaussian(30, 1, 20)
    noisy = [base + 0.3 * gaussian(30, 1, 20, seed=s) for s in range(1, 5)]
    result = stability(noisy)
    outcome = result["stability"]
    assert len(result.pairs) == 6
    assert [(pair.first, pair.second) for pair in result.pairs][:3] == [(0, 1), (0, 2), (0, 3)]
    means = [np.nanmean(pair.similarity) for pair in result.pairs]
    assert outcome.value == pytest.approx(np.mean(means))
    assert (outcome.n, outcome.n_unit) == (4, "seeds")
    # the jackknife by hand
    left = np.array(
        [
            np.mean([m for m, p in zip(means, result.pairs, strict=True) if s not in (p.first, p.second)])
            for s in range(4)
        ]
    )
    half = 3.182446 * np.sqrt(3 / 4 * np.square(left - left.mean()).sum())
    assert [outcome.low, outcome.high] == pytest.approx([np.mean(means) - half, np.mean(means) + half], rel=1e-5)
    same = stability([base, base, base])["stability"]
    assert [same.value, same.low, same.high] == pytest.approx([1, 1, 1])


def test_firing_agreement_is_the_correlation_of_presences(known):
    atoms = gaussian(8, 2, 12)
    rows = gaussian(300, 12, seed=9)
    order, other = rewritten(torch.linalg.qr(atoms.mT)[0].mT)
    other = torch.linalg.qr(other.mT)[0].mT  # orthonormal again, so that both select alike
    first, second = known(torch.linalg.qr(atoms.mT)[0].mT, 3), known(other, 3)
    codes = [each.encode(rows) for each in (first, second)]
    result = stability([first, second], codes=codes)
    assert value(result, "firing_agreement") == pytest.approx(1)
    noisy = known(gaussian(8, 2, 12, seed=4), 3)
    code = noisy.encode(rows)
    blocks, partners = np.array([0, 3, 5]), np.array([7, 1, 1])
    got = presence_correlation(codes[0], blocks, code, partners)
    dense = [each.to_dense().square().sum(2).sqrt().numpy() for each in (codes[0], code)]
    expected = [np.corrcoef(dense[0][:, g], dense[1][:, h])[0, 1] for g, h in zip(blocks, partners, strict=True)]
    np.testing.assert_allclose(got, expected, atol=1e-10)
    assert order is not None


def test_a_block_that_never_fires_or_never_changes_has_no_correlation():
    dense = torch.zeros(10, 3, 1, dtype=torch.float64)
    dense[:, 1] = 2.0
    dense[:4, 2] = 1.0
    code = Code.from_dense(dense)
    got = presence_correlation(code, np.array([0, 1, 2]), code, np.array([2, 2, 2]))
    np.testing.assert_allclose(got, [np.nan, np.nan, 1])
    atoms = torch.eye(3, dtype=torch.float64)[:, None]
    result = stability([atoms, atoms], codes=[code, code])
    assert result["stability"].n == 2  # densities come from the codes
    constant = Code.from_dense(torch.ones(10, 3, 1, dtype=torch.float64))
    unknown = stability([atoms, atoms], codes=[constant, constant])["firing_agreement"]
    assert unknown.value is None
    assert "none is defined" in unknown.note


def test_nothing_depends_on_global_generators_and_seeds_repeat():
    first, second = gaussian(20, 2, 10), gaussian(20, 2, 10, seed=1)
    before = stability([first, second], seed=3)
    torch.manual_seed(99)
    assert stability([first, second], seed=3).outcomes == before.outcomes
    assert stability([first, second], seed=4)["chance_stability"] != before["chance_stability"]


A = gaussian(4, 2, 6)
CODE = Code.from_dense(gaussian(5, 4, 2))
BAD = [
    (lambda: stability([A]), "featurizers"),
    (lambda: stability([A, gaussian(4, 2, 7)]), "featurizers"),
    (lambda: stability([A, torch.zeros_like(A)]), "featurizers[1]"),
    (lambda: stability([A, A * float("nan")]), "featurizers[1]"),
    (lambda: stability([A, A], thresholds=(1.0,)), "thresholds"),
    (lambda: stability([A, A], densities=[np.ones(4)]), "densities"),
    (lambda: stability([A, A], densities=[np.ones(4), np.ones(3)]), "densities[1]"),
    (lambda: stability([A, A], densities=[np.zeros(4), np.ones(4)]), "featurizers[0]"),
    (lambda: stability([A, A], codes=[CODE]), "codes"),
    (lambda: stability([A, A], codes=[CODE, Code.from_dense(gaussian(5, 3, 2))]), "codes"),
    (lambda: stability([A, A], codes=[CODE, Code.from_dense(gaussian(6, 4, 2))]), "codes"),
]


@pytest.mark.parametrize(("make", "name"), BAD)
def test_bad_arguments_are_refused_in_one_line(make, name):
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith(f"{name} must ")
    assert "\n" not in str(caught.value)
