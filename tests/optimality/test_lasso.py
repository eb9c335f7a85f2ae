"""Nonnegative codes: against scikit-learn, and their own certificate."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from monoseme.optimality.lasso import resolve


@pytest.mark.parametrize(("n", "d", "k", "lam"), [(20, 6, 4, 0.1), (20, 5, 12, 0.3), (10, 8, 40, 0.02)])
def test_codes_are_the_lasso_and_the_gap_is_a_bound(n: int, d: int, k: int, lam: float) -> None:
    r = np.random.default_rng([n, d, k])
    w, b = r.standard_normal((k, d)), r.standard_normal(d)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    x = r.standard_normal((n, d)) * 2 + b
    found = resolve(x, w, b, lam, tol=1e-10)
    assert found.gap.max() <= 1e-10 * np.square(x - b).sum(1).max()
    assert found.gap.min() >= -1e-12
    z = np.zeros((n, k))
    for i in range(n):
        part = slice(found.indptr[i], found.indptr[i + 1])
        z[i, found.indices[part]] = found.values[part]
        twin = Lasso(alpha=lam / d, positive=True, fit_intercept=False, tol=1e-14, max_iter=200_000)
        twin.fit(w.T, x[i] - b)
        mine, theirs = (np.square(x[i] - b - c @ w).sum() + 2 * lam * c.sum() for c in (z[i], twin.coef_))
        assert mine <= theirs + 1e-9
        if k <= d:
            np.testing.assert_allclose(z[i], twin.coef_, atol=1e-6)


def test_an_unfinished_solve_says_so() -> None:
    r = np.random.default_rng(0)
    w = r.standard_normal((30, 10)) + 1
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    x = r.standard_normal((5, 10)) + 2
    rough, exact = (
        resolve(x, w, np.zeros(10), 0.05, tol=t, sweeps=s, rounds=q) for t, s, q in ((1e-12, 1, 1), (1e-12, 5000, 50))
    )

    def losses(f):
        z = np.zeros((5, 30))
        z[np.repeat(np.arange(5), np.diff(f.indptr)), f.indices] = f.values
        return np.square(x - z @ w).sum(1) + 0.1 * z.sum(1)

    assert rough.gap.max() > 1e-3
    assert (losses(rough) - losses(exact) <= rough.gap + 1e-9).all()
