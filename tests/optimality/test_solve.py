"""The joint solver: monotone, certified, and global in the wide case once duplicates are merged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from tests.optimality.points import stationary

from monoseme import UserError, worlds
from monoseme.optimality.objective import loss
from monoseme.optimality.solve import Solution, solve


def alike(found: Solution, cosine: float = 1 - 1e-4) -> bool:
    """Whether two live atoms are the same or one is dead."""
    live = np.abs(found.codes).max(0) > 0
    c = found.atoms[live] @ found.atoms[live].T
    return not live.all() or bool((c - 2 * np.eye(len(c))).max() > cosine)


@pytest.mark.parametrize("n", [5, 6, 7, 8])
def test_merge_and_reseed_reach_the_wide_value_from_every_start(n: int) -> None:
    x, lam = np.random.default_rng(n).standard_normal((n, 3)), 0.2
    stuck = []
    for seed in range(15):
        found = solve(x, n, lam, seed=seed)
        assert -1e-12 * found.wide <= found.gap <= 1e-8 * found.wide
        assert found.is_global
        assert np.diff(found.history).max(initial=0.0) <= 1e-13
        plain = solve(x, n, lam, seed=seed, reseed=False)
        assert found.loss <= plain.loss + 1e-12
        if plain.gap > 1e-5 * plain.wide:
            assert not plain.is_global
            assert alike(plain)
            stuck.append(plain)
    # at K = N the parametrised problem has minima that are not global: most starts end in one without merging
    assert len(stuck) >= 1


def test_where_plain_descent_ends_is_a_local_minimum() -> None:
    x, lam, tried = np.random.default_rng(7).standard_normal((7, 3)), 0.2, 0
    for seed in range(6):
        plain = solve(x, 7, lam, seed=seed, reseed=False, tol=1e-13)
        if plain.gap <= 1e-5 * plain.wide:
            continue
        tried += 1
        assert plain.stationarity < 1e-4
        r = np.random.default_rng(seed)
        near = plain.atoms + 1e-3 * r.standard_normal(plain.atoms.shape)
        again = solve(x, 7, lam, atoms=near, bias=plain.bias + 1e-3 * r.standard_normal(3), reseed=False, tol=1e-13)
        assert again.loss >= plain.loss * (1 - 1e-7)
        # while an atom sent to the longest residual does escape
        assert solve(x, 7, lam, atoms=plain.atoms, bias=plain.bias).gap <= 1e-8 * plain.wide
    assert tried >= 2


def test_a_planted_independent_world_is_found_and_stationary() -> None:
    world = worlds.independent(d=16, n_concepts=8, p=0.15, seed=0)
    sample = world.sample(600, seed=1)
    x = sample.x.double().numpy()
    found = solve(x, 8, 0.05, starts=3)
    planted = np.stack([factor.basis[0] for factor in world.factors])
    assert np.abs(found.atoms @ planted.T).max(0).min() > 0.98
    assert found.stationarity < 1e-3
    assert found.gap > 0
    assert not found.is_global
    assert found.loss == loss(x, found.atoms, found.codes, found.bias, 0.05)
    # another method, begun there, finds nothing lower
    w, z, b, _ = stationary(x, 8, 0.05, atoms=found.atoms, bias=found.bias)
    assert loss(x, w, z, b, 0.05) == pytest.approx(found.loss, rel=1e-8)


@pytest.mark.parametrize("signed", [False, True])
def test_the_certificate_is_what_its_definition_says(signed: bool) -> None:
    x, lam = np.random.default_rng(0).standard_normal((40, 4)) + 1, 0.4
    found = solve(x, 5, lam, signed=signed, rounds=4)  # stopped early: all three still violated
    w, z, b = found.atoms, found.codes, found.bias
    r = x - b - z @ w
    k1 = 0.0
    for i in range(40):
        for k in range(5):
            c = float(w[k] @ r[i])
            off = (abs(c) if signed else c) - lam
            k1 = max(k1, off if z[i, k] == 0 else abs(c - lam * np.sign(z[i, k])))
    k2 = [np.linalg.norm(z[:, k] @ r / 40 - lam * abs(z[:, k]).mean() * w[k]) / abs(z[:, k]).mean() for k in range(5)]
    # codes are optimal up to the duality gap that was asked for
    assert found.k1 == pytest.approx(k1 / lam, abs=1e-12)
    assert found.k1 < 1e-5
    assert found.k2 == pytest.approx(max(k2) / lam, rel=1e-9)
    assert found.k3 == pytest.approx(np.linalg.norm(r.mean(0)) / lam, rel=1e-6)
    assert found.longest == pytest.approx(np.linalg.norm(r, axis=1).max() / lam)
    assert found.stationarity == max(found.k1, found.k2, found.k3) > 1e-4
    assert (z < 0).any() == signed


def test_signed_codes_are_the_lasso_of_another_library() -> None:
    x, lam = np.random.default_rng(3).standard_normal((12, 6)), 0.3
    found = solve(x, 4, lam, signed=True)
    for row, code in zip(x - found.bias, found.codes, strict=True):
        model = Lasso(alpha=lam / 6, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(found.atoms.T, row)
        np.testing.assert_allclose(code, model.coef_, atol=1e-6)


def test_signed_codes_need_half_of_the_atoms_of_antipodal_rays() -> None:
    r = np.random.default_rng(0)
    u = np.linalg.qr(r.standard_normal((4, 2)))[0].T
    x = np.concatenate([s * t * u for s in (1, -1) for t in (2.0, 3.0, 5.0)]) + 1
    assert solve(x, 2, 0.5, signed=True, starts=2).is_global
    assert solve(x, 4, 0.5, starts=2).is_global
    assert solve(x, 3, 0.5, starts=2).gap > 0.1


def test_a_dense_variable_is_doubled_unless_codes_are_signed() -> None:
    r = np.random.default_rng(2)
    amount = np.where(r.random(300) < 0.8, 1 + r.random(300), 0.0)
    x = amount[:, None] * np.eye(3)[0]
    pair, one = solve(x, 2, 0.1, starts=3), solve(x, 2, 0.1, signed=True, starts=3)
    assert pair.atoms[0] @ pair.atoms[1] < -0.999
    assert min((pair.codes > 0).mean(0)) > 0.3
    assert abs(solve(x, 1, 0.1, signed=True).loss - pair.loss) < 1e-8  # one signed atom does what the pair does
    assert abs(one.loss - pair.loss) < 1e-8


def test_antipodal_atoms_are_merged_when_codes_are_signed() -> None:
    x = np.random.default_rng(1).standard_normal((6, 3))
    w = x[:5] / np.linalg.norm(x[:5], axis=1, keepdims=True)
    start = np.concatenate([w, -w[:1]])
    assert solve(x, 6, 0.2, signed=True, atoms=start).gap <= 1e-8


def test_a_fixed_bias_stays_and_is_bounded_at_that_bias() -> None:
    x = np.random.default_rng(0).standard_normal((20, 4)) + 3
    found = solve(x, 4, 0.1, learned_bias=False, bias=np.ones(4))
    np.testing.assert_array_equal(found.bias, np.ones(4))
    assert found.k3 == 0
    assert found.gap > 0
    wide = solve(x, 20, 0.1, learned_bias=False, bias=np.ones(4))
    assert wide.is_global
    assert wide.gap <= 1e-8


def test_rows_without_anything_in_them_are_no_accident() -> None:
    found = solve(np.full((5, 3), 2.0), 2, 0.1)
    assert (found.loss, found.wide) == (0.0, 0.0)
    assert found.is_global


def test_a_seed_decides_and_more_starts_are_no_worse() -> None:
    x = np.random.default_rng(9).standard_normal((60, 6))
    one, same = (solve(x, 8, 0.5, seed=4) for _ in range(2))
    np.testing.assert_array_equal(one.atoms, same.atoms)
    assert solve(x, 8, 0.5, seed=4, starts=4).loss <= one.loss
    assert solve(x, 8, 0.5, seed=5).loss != one.loss


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"x": np.zeros((3, 2), int)}, "x"),
        ({"x": np.full((3, 2), np.inf)}, "x"),
        ({"x": np.full((3, 2), np.nan)}, "x"),
        ({"n_atoms": 0}, "n_atoms"),
        ({"lam": 0.0}, "lam"),
        ({"lam": -1.0}, "lam"),
        ({"starts": 0}, "starts"),
        ({"rounds": 0}, "rounds"),
        ({"bias": np.zeros(3)}, "bias"),
        ({"bias": np.array([0.0, np.nan])}, "bias"),
        ({"atoms": np.ones((3, 2))}, "atoms"),
    ],
)
def test_bad_input_is_one_line(change: dict, name: str) -> None:
    given = {"x": np.ones((3, 2)), "n_atoms": 2, "lam": 0.1} | change
    with pytest.raises(UserError, match=f"^{name} must") as caught:
        solve(**given)
    assert "\n" not in str(caught.value)
