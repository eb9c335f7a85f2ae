"""The wide limit: its dual, an SDP, rays, and covers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from monoseme import UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality.wide import cover, huber, universal_bound, wide_limit


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
    x = np.random.default_rng(0).standard_normal((40, 3))
    near, far = wide_limit(x, 100.0), wide_limit(x, 1e-4, tol=1e-10)
    np.testing.assert_allclose(near.bias, x.mean(0), atol=1e-12)
    assert (near.is_mean, near.is_median) == (True, False)
    assert (far.is_mean, far.is_median) == (False, True)
    slope = ((x - far.bias) / np.linalg.norm(x - far.bias, axis=1, keepdims=True)).mean(0)
    assert np.linalg.norm(slope) < 1e-4  # the geometric median's own condition


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


def test_a_source_and_an_array_give_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 5))
    one, two = wide_limit(x, 1.0), wide_limit(ArrayRows(x), 1.0)
    assert one.loss == pytest.approx(two.loss, rel=1e-12)


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
