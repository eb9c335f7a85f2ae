"""Newton's method against the linear program: inside to the last digits, outside with a certificate, never wrong."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from tests.optimality.twins import check_witness, feasible, latents_of, row_weights

from monoseme.optimality.columns import columns
from monoseme.optimality.hull import Hull, HullSettings
from monoseme.optimality.tilt import tilt


def matrix_of(y: np.ndarray):
    rows = sp.csr_array(y)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float64)


def draw(seed: int):
    r = np.random.default_rng(seed)
    n, k = int(r.integers(8, 40)), int(r.integers(2, 7))
    y = (r.random((n, k)) < 0.6) * r.exponential(1.0, (n, k))
    y[:k] += np.eye(k)  # every column fires
    a = r.random(n) * (r.random(n) < 0.5)
    inside = a @ y / max(a.sum(), 1e-9)
    return y, (inside, inside * 3.0, r.exponential(1.0, k))[seed % 3]


@pytest.mark.parametrize("cone", [False, True])
def test_every_answer_is_the_linear_programs(cone: bool) -> None:
    inside = outside = 0
    for seed in range(240):
        y, g = draw(seed)

        def proves(beta: np.ndarray, y: np.ndarray = y, g: np.ndarray = g) -> bool:
            lowered = beta - max((y @ beta / np.maximum(y.sum(1), 1e-300)).max(), 0.0)
            return bool((y @ lowered <= 1e-12).all() and lowered @ g > 1e-9)

        made = tilt(matrix_of(y), g, 1e-9, proves if cone else None)
        rows, goal = (y.T, g) if cone else (np.vstack([y.T, np.ones(len(y))]), np.append(g, 1.0))
        truth = linprog(np.zeros(len(y)), A_eq=rows, b_eq=goal, bounds=(0, None), method="highs").status == 0
        if made.outside:
            outside += 1
            assert not truth, seed
            assert cone or made.beta @ g > (y @ made.beta).max()
        elif made.distance <= 1e-9:
            inside += 1
            assert truth, seed
            a = np.exp(y @ made.beta + made.shift)
            assert cone or abs(a.sum() - 1) < 1e-12
            assert np.linalg.norm(a @ y - g) <= 1e-8
    assert inside > 40
    assert outside > 20
    assert inside + outside > 215  # the rest lie on the boundary


def test_the_weights_are_those_of_largest_entropy() -> None:
    y, g = draw(3)
    made = tilt(matrix_of(y), g, 1e-11, None)
    a = np.exp(y @ made.beta + made.shift)
    assert made.distance <= 1e-11
    ones = np.vstack([y.T, np.ones(len(y))])
    slow = minimize(
        lambda w: float((w * np.log(w)).sum()),
        np.full(len(y), 1 / len(y)),
        jac=lambda w: np.log(w) + 1,
        bounds=[(1e-12, 1)] * len(y),
        constraints=[{"type": "eq", "fun": lambda w: np.append(w @ y - g, w.sum() - 1), "jac": lambda w: ones}],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    np.testing.assert_allclose(a, slow.x, atol=1e-4)


@pytest.mark.parametrize("learned_bias", [True, False])
def test_where_a_few_first_order_steps_decide_nothing_all_is_decided(learned_bias: bool) -> None:
    r = np.random.default_rng(5)
    k, n, d = 24, 1500, 12
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < 0.3) * (0.1 + r.exponential(1.0, (n, k)))
    z[r.random(n) < 0.4] *= r.random(k) < 0.5  # features that go together
    z[z[:, 0] == 0, 1] = 0.0  # 1 fires only where 0 does
    latents = latents_of(w, z, None, learned_bias)
    hull = Hull(latents, columns(latents), HullSettings(iterations=1, rounds=1))
    kinds = set()
    for j in range(k):
        weights, direction = hull.decide(j)
        assert weights is not None
        tol = hull.settings.tolerance * np.linalg.norm(hull.target(j))
        assert (direction is None) == (weights.distance <= tol) == feasible(w, z, j, learned_bias), j
        if direction is not None:
            kinds.add("beta")
            assert check_witness(w, z, j, "beta", direction.index, direction.weight, direction.offset, learned_bias, 0)
        elif weights.tilt is not None:
            kinds.add("tilt")
            a = row_weights(z, j, "tilt", np.arange(k), weights.tilt, weights.even)
            index = np.flatnonzero(a)
            assert check_witness(w, z, j, "rows", index, a[index], 0.0, learned_bias, tol + 1e-12)
    assert kinds == {"beta", "tilt"}
