"""The wide limit: its dual, an SDP, rays, and covers."""

from __future__ import annotations

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
import torch

from monoseme import UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality.objective import balanced, gram_loss, loss
from monoseme.optimality.wide import cover, distinct_rays, huber, universal_bound, wide_limit


def sdp(x: np.ndarray, lam: float) -> float:
    """The relaxation to doubly nonnegative Q, and b, of min λ tr[Xc(λN I + Q)⁻¹Xc'] + λ 1'Q1/N²: Clarabel."""
    n, d = x.shape
    q, b, t = cp.Variable((n, n), PSD=True), cp.Variable(d), cp.Variable((d, d), symmetric=True)
    centred = x.T - cp.reshape(b, (d, 1), order="C") @ np.ones((1, n))
    block = cp.bmat([[t, centred], [centred.T, lam * n * np.eye(n) + q]])
    goal = lam * (cp.trace(t) + cp.sum(q) / n**2)
    problem = cp.Problem(cp.Minimize(goal), [block >> 0, q >= 0])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(np.asarray(problem.value))


@pytest.mark.parametrize(("n", "d", "lam"), [(4, 2, 0.3), (5, 3, 0.5), (6, 2, 1.0), (7, 3, 0.4), (9, 2, 0.2)])
def test_the_closed_form_is_the_semidefinite_program(n: int, d: int, lam: float) -> None:
    x = np.random.default_rng([n, d]).standard_normal((n, d))
    found = wide_limit(x, lam, tol=1e-11)
    assert 0 <= found.gap <= 1e-10
    assert sdp(x, lam) == pytest.approx(found.loss, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_one_atom_a_row_reaches_it_in_every_form_and_no_q_goes_below(seed: int) -> None:
    r = np.random.default_rng(seed)
    x, lam = r.standard_normal((7, 3)), 0.4
    found = wide_limit(x, lam, tol=1e-12)
    centred = x - found.bias
    t = np.linalg.norm(centred, axis=1)
    w, z = centred / t[:, None], np.diag(np.maximum(t - lam, 0))
    assert loss(x, w, z, found.bias, lam) == pytest.approx(found.loss, rel=1e-12)
    y = balanced(w, z)[1]
    assert gram_loss(x, y @ y.T, found.bias, lam) == pytest.approx(found.loss, rel=1e-11)
    for _ in range(50):  # 50 of any width, near the optimum and far from it
        other = np.abs(y[:, r.integers(0, 7, 9)] * r.random(9) + r.exponential(r.choice([0.01, 1.0]), (7, 9)))
        assert gram_loss(x, other @ other.T, found.bias + 0.1 * r.standard_normal(3), lam) >= found.loss - 1e-12


def test_a_width_that_only_counts_rows_says_so() -> None:
    x = np.random.default_rng(0).standard_normal((20, 3))
    lone = wide_limit(x, 0.1)
    assert lone.rays == lone.far_rows == 20
    assert "one atom a row" in lone.reading
    shared = wide_limit(np.repeat(x, 2, 0), 0.1)
    assert (shared.rays, shared.far_rows, shared.reading) == (20, 40, "")
    assert wide_limit(x, 100.0).reading == ""


def test_four_rays_and_inner_points_are_exact() -> None:
    r = np.random.default_rng(0)
    u = np.linalg.qr(r.standard_normal((5, 2)))[0].T
    u = np.concatenate([u, -u])
    inner = r.standard_normal((3, 5))
    inner *= 0.4 / np.linalg.norm(inner, axis=1, keepdims=True)
    x = np.concatenate([np.repeat(u, 4, 0) * np.tile([0.9, 1.5, 2.0, 4.0], 4)[:, None], inner, -inner]) + 2.0
    lam = 0.6
    found = wide_limit(x, lam, tol=1e-14)
    np.testing.assert_allclose(found.bias, 2.0, atol=1e-9)
    assert found.rays == 4
    assert found.far == pytest.approx(16 / 22)
    assert (found.is_mean, found.is_median) == (False, False)
    assert found.directions is not None
    z = np.maximum((x - found.bias) @ found.directions.T - lam, 0)
    assert loss(x, found.directions, z, found.bias, lam) == pytest.approx(found.loss, rel=1e-12)
    for gone in range(4):  # and none of the four can be spared
        three = np.delete(np.arange(4), gone)
        assert loss(x, found.directions[three], z[:, three], found.bias, lam) > found.loss + 0.1


def test_noise_within_the_cosine_is_one_ray() -> None:
    r = np.random.default_rng(1)
    for d, k in ((2, 5), (6, 40), (30, 200)):
        u = r.standard_normal((k, d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        x = u[r.permutation(np.repeat(np.arange(k), 6))] * r.uniform(2, 9, (6 * k, 1))
        noisy = x + 1e-7 * r.standard_normal(x.shape)
        assert len(distinct_rays(noisy, np.zeros(d), 1.0, 1 - 1e-9)) == k
        assert len(distinct_rays(noisy, np.zeros(d), 1.0, 1.0)) > k


@pytest.mark.parametrize("seed", range(6))
def test_rays_are_counted_and_reached(seed: int) -> None:
    r = np.random.default_rng(seed)
    d, k = int(r.integers(2, 8)), int(r.integers(3, 9))
    u = r.standard_normal((k, d))
    u = np.concatenate([u, -u])  # balanced directions: the planted centre is the Huber location
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    x = np.repeat(u, 3, 0) * np.tile(r.uniform(2, 5, 3), 2 * k)[:, None] + 1.0
    found = wide_limit(np.concatenate([x, np.ones((5, d))]), 0.7, tol=1e-12)
    np.testing.assert_allclose(found.bias, 1.0, atol=1e-8)
    assert found.rays == 2 * k
    t = np.linalg.norm(x - found.bias, axis=1)
    assert found.directions is not None
    assert (np.abs(found.directions @ (x - found.bias).T).max(0) >= t - 1e-7).all()


def test_the_bias_is_the_median_iff_every_row_is_far_and_the_mean_iff_none_is() -> None:
    seen = []
    for seed in range(30):
        r = np.random.default_rng(seed)
        x = r.standard_normal((20, 3))
        x[:5] *= r.choice([1.0, 0.1])
        found = wide_limit(x, float(10 ** r.uniform(-3, 1.5)), tol=1e-13)
        t = np.linalg.norm(x - found.bias, axis=1, keepdims=True)
        # the two textbook conditions, neither of which knows λ
        median = np.linalg.norm(((x - found.bias) / t).mean(0)) < 1e-5
        mean = np.linalg.norm(found.bias - x.mean(0)) < 1e-5
        assert (found.is_median, found.is_mean) == (median, mean)
        seen.append((found.is_median, found.is_mean))
    assert {(True, False), (False, True), (False, False)} == set(seen)


def test_the_gap_is_honest_when_the_passes_run_out() -> None:
    x = np.random.default_rng(2).standard_exponential((60, 2)) ** 2
    best, last = wide_limit(x, 0.3, tol=1e-13), np.inf
    for most in (1, 2, 4, 8):
        found = wide_limit(x, 0.3, tol=0.0, most=most)
        assert found.loss == pytest.approx(universal_bound(x, found.bias, 0.3), rel=1e-13)
        assert 0 < found.loss - best.loss <= found.gap
        assert found.loss < last  # monotone
        last = found.loss


def test_no_dictionary_goes_below_the_bound_on_any_row() -> None:
    for seed in range(200):
        r = np.random.default_rng(seed)
        n, d, k, lam = 6, int(r.integers(1, 5)), int(r.integers(1, 7)), float(r.uniform(0.05, 2))
        x, w, b = r.standard_normal((n, d)), r.standard_normal((k, d)), r.standard_normal(d)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        z = np.maximum(r.standard_normal((n, k)), 0)
        loss = np.square(x - z @ w - b).sum(1) + 2 * lam * z.sum(1)
        bound = huber(np.linalg.norm(x - b, axis=1), lam)
        assert (loss >= bound - 1e-12).all()
        assert universal_bound(x, b, lam) == pytest.approx(bound.mean())
        assert wide_limit(x, lam, tol=1e-6).loss <= bound.mean() + 1e-6


def test_a_cover_covers() -> None:
    r = np.random.default_rng(3)
    rays = r.standard_normal((12, 4))
    x = rays[r.integers(0, 12, 250)] * r.uniform(0.5, 3, (250, 1)) + 0.05 * r.standard_normal((250, 4))
    lam, b, sizes = 0.1, np.zeros(4), []
    for excess in (0.02, 0.1, 0.3, 0.8):
        found = cover(x, b, lam, excess)
        code = np.maximum((x @ found.atoms.T) - lam, 0)
        one = np.where(np.arange(code.shape[1]) == code.argmax(1)[:, None], code, 0)
        loss = np.square(x - one @ found.atoms).sum(1) + 2 * lam * one.sum(1)
        assert (loss <= huber(np.linalg.norm(x, axis=1), lam) + excess + 1e-9).all()
        assert loss.mean() == pytest.approx(found.loss)
        sizes.append(len(found.atoms))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 20


def test_the_cap_is_the_exact_price_of_a_tilted_atom() -> None:
    r = np.random.default_rng(0)
    for _ in range(50):
        lam = float(r.uniform(0.1, 1))
        t, cos = lam * float(r.uniform(1.01, 5)), float(r.uniform(-1, 1))
        row, atom = np.array([t, 0.0]), np.array([cos, np.sqrt(1 - cos**2)])
        best = min(np.square(row - z * atom).sum() + 2 * lam * z for z in np.linspace(0, t, 20_001))
        excess = best - huber(np.array([t]), lam)[0]
        assert excess == pytest.approx((t - lam) ** 2 - max(t * cos - lam, 0) ** 2, abs=1e-6)
        assert excess <= 2 * (t - lam) * t * (1 - cos) + 1e-6
        if excess < (t - lam) ** 2 - 1e-6:
            assert (lam + np.sqrt((t - lam) ** 2 - excess)) / t == pytest.approx(cos, abs=1e-4)


def test_a_cover_is_near_the_smallest() -> None:
    r = np.random.default_rng(4)
    x, lam = r.standard_normal((9, 2)) * 2, 0.2
    found = cover(x, np.zeros(2), lam, 0.5)
    t = np.linalg.norm(x, axis=1)
    reach = x @ (x / t[:, None]).T
    short = np.square(np.maximum(t - lam, 0))[:, None] - np.square(np.maximum(reach - lam, 0)) <= 0.5 + 1e-9
    sizes = [k for k in range(10) for c in combinations(range(9), k) if (short[:, list(c)].any(1) | (t <= lam)).all()]
    assert min(sizes) <= len(found.atoms) <= min(sizes) * (1 + np.log(9))
    assert found.loss - universal_bound(x, np.zeros(2), lam) <= 0.5


def test_a_source_a_tensor_and_an_array_give_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 5))
    one = wide_limit(x, 1.0)
    for form in (ArrayRows(x), torch.from_numpy(x)):
        two = wide_limit(form, 1.0)
        assert one.loss == pytest.approx(two.loss, rel=1e-12)
        assert one.rays == two.rays
        assert universal_bound(form, one.bias, 1.0) == pytest.approx(one.loss, rel=1e-12)
    half = wide_limit(torch.from_numpy(x).half(), 1.0)  # sums are float64 whatever comes
    assert half.loss == pytest.approx(one.loss, rel=1e-3)


@pytest.mark.parametrize(("change", "name"), [({"most": 0}, "most"), ({"ray_cosine": 1.5}, "ray_cosine")])
def test_bad_options_are_one_line(change: dict, name: str) -> None:
    with pytest.raises(UserError, match=f"^{name} must") as caught:
        wide_limit(np.ones((3, 2)), 1.0, **change)
    assert "\n" not in str(caught.value)


def test_a_bad_row_of_a_source_is_named() -> None:
    x = np.ones((9000, 2))
    x[8500, 1] = np.nan
    with pytest.raises(UserError, match=r"^x must be finite; got NaN or infinity in row 8500"):
        wide_limit(ArrayRows(x), 1.0)


@pytest.mark.parametrize(
    ("x", "lam", "name"),
    [
        (np.zeros((3, 2), int), 1.0, "x"),
        (np.full((3, 2), np.nan), 1.0, "x"),
        (np.zeros((0, 2)), 1.0, "x"),
        (np.zeros((3, 2)), 0.0, "lam"),
    ],
)
def test_bad_input_is_one_line(x: np.ndarray, lam: float, name: str) -> None:
    with pytest.raises(UserError, match=name) as caught:
        wide_limit(x, lam)
    assert "\n" not in str(caught.value)
