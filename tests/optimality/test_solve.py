"""The joint solver: monotone, certified, and global in the wide case once duplicates are merged."""

from __future__ import annotations

import numpy as np
import pytest

from monoseme import UserError, worlds
from monoseme.optimality.solve import solve


@pytest.mark.parametrize("n", [5, 6, 7, 8])
def test_merge_and_reseed_reach_the_wide_value_from_every_start(n: int) -> None:
    x, lam = np.random.default_rng(n).standard_normal((n, 3)), 0.2
    stuck = 0
    for seed in range(15):
        found = solve(x, n, lam, seed=seed)
        assert found.loss - found.wide <= 1e-7 * found.wide
        assert found.loss >= found.wide - 1e-10
        assert np.diff(found.history).max(initial=0.0) <= 1e-6
        plain = solve(x, n, lam, seed=seed, reseed=False)
        stuck += plain.loss > plain.wide * (1 + 1e-5)
        assert found.loss <= plain.loss + 1e-9
    # at K = N the parametrised problem has minima that are not global: most starts end in one without merging
    assert stuck >= 1


def test_a_planted_independent_world_is_found_and_stationary() -> None:
    world = worlds.independent(d=16, n_concepts=8, p=0.15, seed=0)
    sample = world.sample(600, seed=1)
    x = sample.x.double().numpy()
    found = solve(x, 8, 0.05, starts=3)
    planted = np.stack([factor.basis[0] for factor in world.factors])
    assert np.abs(found.atoms @ planted.T).max(0).min() > 0.98
    assert found.stationarity < 0.05


def test_a_fixed_bias_stays() -> None:
    x = np.random.default_rng(0).standard_normal((20, 4)) + 3
    found = solve(x, 4, 0.1, learned_bias=False, bias=np.ones(4))
    np.testing.assert_array_equal(found.bias, np.ones(4))


@pytest.mark.parametrize(
    ("x", "k", "lam", "name"),
    [
        (np.zeros((3, 2), int), 2, 0.1, "x"),
        (np.full((3, 2), np.inf), 2, 0.1, "x"),
        (np.zeros((3, 2)), 0, 0.1, "n_atoms"),
        (np.zeros((3, 2)), 2, 0.0, "lam"),
    ],
)
def test_bad_input_is_one_line(x: np.ndarray, k: int, lam: float, name: str) -> None:
    with pytest.raises(UserError, match=name) as caught:
        solve(x, k, lam)
    assert "\n" not in str(caught.value)
