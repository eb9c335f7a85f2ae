"""A world is calibrated, sums its parts, and is a pure function of its seeds."""

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.worlds import CURVED, Circle, manifolds


@pytest.fixture(scope="module")
def world():
    return manifolds(seed=3)


@pytest.fixture(scope="module")
def sample(world):
    return world.sample(20_000, seed=5)


def test_half_segments_and_half_curved_in_a_cycle(world):
    kinds = [factor.kind for factor in world.factors]
    assert kinds[:64] == ["segment"] * 64
    assert kinds[64:] == [CURVED[i % 7].kind for i in range(64)]


def test_spans_are_orthonormal_and_differ(world):
    for factor in world.factors:
        np.testing.assert_allclose(factor.basis @ factor.basis.T, np.eye(factor.b), atol=1e-12)
    assert len({factor.basis.tobytes() for factor in world.factors}) == 128


def test_every_factor_has_mean_zero_and_rms_norm_one(world):
    for i, factor in enumerate(world.factors):
        points = factor.standard(factor.manifold.draw(rng(99, "fresh", i), 20_000))
        # calibration and this check each err by about 1/√n; five standard errors of the smaller sample
        np.testing.assert_allclose(points.mean(0), 0, atol=5 / np.sqrt(20_000))
        assert np.square(points).sum(1).mean() == pytest.approx(1, abs=0.04)


def test_rows_have_mean_square_norm_one_and_exactly_four_factors(sample):
    squares = sample.x.double().square().sum(1)
    assert float(squares.mean()) == pytest.approx(1, abs=5 * float(squares.std()) / np.sqrt(len(sample)))
    assert sample.active.sum(1).unique().tolist() == [4]
    assert (sample.support.indices.view(-1, 4).diff(dim=1) > 0).all()


def test_supports_are_uniform(sample):
    counts = sample.active.sum(0).double()
    expected = len(sample) * 4 / 128
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert 70 < chi2 < 200  # 127 degrees of freedom (a little fewer: four factors a row)
    pairs = sample.active[:, :8].double().T @ sample.active[:, :8].double()
    together = pairs[~torch.eye(8, dtype=torch.bool)].mean()
    assert float(together) == pytest.approx(len(sample) * 4 * 3 / (128 * 127), rel=0.15)


def test_a_row_is_the_sum_of_its_contributions(world, sample):
    total = torch.zeros(len(sample), world.d_in, dtype=torch.float64)
    for i in range(len(world.factors)):
        assert sample.rows(i).tolist() == sample.active[:, i].nonzero().squeeze(1).tolist()
        total.index_add_(0, sample.rows(i), sample.contribution(i))
    torch.testing.assert_close(total, sample.x.double(), rtol=0, atol=1e-6)


def test_a_contribution_lies_in_its_span_and_scales_with_the_row(world, sample):
    for i in (0, 64, 70):
        part, basis = sample.contribution(i), torch.from_numpy(world.factors[i].basis)
        torch.testing.assert_close(part @ basis.T @ basis, part)
        assert float(part.square().sum(1).mean()) == pytest.approx(1 / 4, rel=0.2)


def test_same_seeds_same_bits():
    first = manifolds(d=32, n_factors=16, seed=1).sample(500, seed=2)
    again = manifolds(d=32, n_factors=16, seed=1).sample(500, seed=2)
    assert first.x.numpy().tobytes() == again.x.numpy().tobytes()
    assert first.support.indices.tolist() == again.support.indices.tolist()


def test_global_generators_are_neither_read_nor_moved():
    def draw():
        return manifolds(d=32, n_factors=16, seed=1, noise=0.1).sample(500, seed=2).x

    before = draw()
    torch.manual_seed(1234)
    np.random.seed(4)  # noqa: NPY002
    state, words = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    torch.testing.assert_close(draw(), before, rtol=0, atol=0)
    torch.testing.assert_close(torch.get_rng_state(), state, rtol=0, atol=0)
    assert repr(np.random.get_state()) == words  # noqa: NPY002


def test_other_seeds_are_independent():
    world, other = manifolds(d=32, n_factors=16, seed=1), manifolds(d=32, n_factors=16, seed=2)
    draws = [world.sample(4000, seed=0), world.sample(4000, seed=1), other.sample(4000, seed=0)]
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        x, y = draws[a].x.double().flatten(), draws[b].x.double().flatten()
        correlation = float((x @ y) / (x.norm() * y.norm()))
        assert abs(correlation) < 5 / np.sqrt(len(draws[a]))
        agreement = float((draws[a].active & draws[b].active).double().mean())
        assert agreement == pytest.approx((4 / 16) ** 2, abs=0.01)


def test_noise_is_the_stated_share():
    world = manifolds(d=32, n_factors=16, seed=1, noise=0.2)
    sample = world.sample(20_000, seed=0)
    clean = torch.zeros_like(sample.x, dtype=torch.float64)
    for i in range(16):
        clean.index_add_(0, sample.rows(i), sample.contribution(i))
    noise = sample.x.double() - clean
    assert float(noise.square().sum(1).mean()) == pytest.approx(0.2, rel=0.02)
    assert float(sample.x.double().square().sum(1).mean()) == pytest.approx(1, rel=0.03)
    assert float((noise * clean).sum(1).mean()) == pytest.approx(0, abs=0.005)


def test_one_row_and_all_factors_active():
    sample = manifolds(d=8, n_factors=3, active=3).sample(1, seed=0)
    assert sample.support.indices.tolist() == [0, 1, 2]
    assert sum(len(sample.contribution(i)) for i in range(3)) == 3


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_factors": 0}, "n_factors"),
        ({"n_factors": 4, "active": 5}, "active"),
        ({"active": 0}, "active"),
        ({"noise": 1.0}, "noise"),
        ({"curved": ()}, "curved"),
        ({"d": 1, "curved": (Circle(),)}, "d"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(arguments, name):
    with pytest.raises(UserError) as caught:
        manifolds(**arguments)
    assert str(caught.value).startswith(f"{name} must ")
    assert "\n" not in str(caught.value)


def test_no_rows_are_refused_in_one_line(world):
    with pytest.raises(UserError, match=r"^n must be at least 1; got 0\. .*$"):
        world.sample(0, seed=0)
