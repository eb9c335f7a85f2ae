"""Nonnegative codes: against scikit-learn, and their own certificate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Lasso

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality import lasso
from monoseme.optimality.lasso import Resolved, resolve, resolve_batches


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
    rough, exact = (resolve(x, w, np.zeros(10), 0.05, tol=1e-12, max_sweeps=most) for most in (1, 10_000))

    def losses(f):
        z = np.zeros((5, 30))
        z[np.repeat(np.arange(5), np.diff(f.indptr)), f.indices] = f.values
        return np.square(x - z @ w).sum(1) + 0.1 * z.sum(1)

    assert rough.gap.max() > 1e-3
    assert (losses(rough) - losses(exact) <= rough.gap + 1e-9).all()


KINDS = ("plain", "overcomplete", "coherent", "duplicate", "dead", "negative", "wide")


def draw(kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    r = np.random.default_rng([seed, KINDS.index(kind)])
    n, d, k = 40, 8, 12
    if kind in ("overcomplete", "wide"):
        d, k = 6, (400 if kind == "wide" else 40)
    atoms = r.standard_normal((k, d)) + (3.0 if kind == "coherent" else 0.0)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    if kind == "duplicate":
        atoms[1], atoms[5] = atoms[0], atoms[0]
    if kind == "dead":
        atoms[3] = 0.0
    bias = r.standard_normal(d)
    z = (r.random((n, k)) < 3 / k) * r.exponential(1.0, (n, k))
    x = bias + (-2.0 * np.abs(z) @ atoms if kind == "negative" else z @ atoms + 0.2 * r.standard_normal((n, d)))
    x[0] = bias  # a row with nothing to explain
    return x, atoms, bias, 0.1


def dense(codes: Resolved, k: int) -> np.ndarray:
    return sp.csr_array((codes.values, codes.indices, codes.indptr), (len(codes.indptr) - 1, k)).toarray()


def primal(x: np.ndarray, atoms: np.ndarray, bias: np.ndarray, lam: float, z: np.ndarray) -> np.ndarray:
    return np.square(x - bias - z @ atoms).sum(1) + 2 * lam * z.sum(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_closes_and_scikit_learn_agrees(kind: str) -> None:
    x, atoms, bias, lam = draw(kind)
    out = resolve(x, atoms, bias, lam, tol=1e-12)
    z, scale = dense(out, len(atoms)), np.square(x - bias).sum(1)
    assert (out.gap >= 0).all()
    assert (out.gap <= 1e-12 * scale).all()
    assert (out.values > 0).all()
    assert all((np.diff(out.indices[a:b]) > 0).all() for a, b in zip(out.indptr, out.indptr[1:], strict=False))
    model = Lasso(alpha=lam / x.shape[1], positive=True, fit_intercept=False, tol=1e-14, max_iter=200_000)
    for i in range(12):
        twin = model.fit(atoms.T, x[i] - bias).coef_ if i else np.zeros(len(atoms))
        np.testing.assert_allclose(twin @ atoms, z[i] @ atoms, atol=1e-6)
        if kind != "duplicate":  # there only the sum over the copies is determined
            np.testing.assert_allclose(twin, z[i], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_bounds_what_is_left_however_early_one_stops(kind: str) -> None:
    x, atoms, bias, lam = draw(kind, 1)
    best = primal(x, atoms, bias, lam, dense(resolve(x, atoms, bias, lam, tol=1e-14), len(atoms)))
    r = np.random.default_rng(0)
    start = sp.csr_array((r.random((len(x), len(atoms))) < 4 / len(atoms)) * r.exponential(1.0, (len(x), len(atoms))))
    stopped = []
    for most, tol in ((1, 0.0), (5, 0.0), (10_000, 0.5), (10_000, 1e-3)):
        out = resolve(x, atoms, bias, lam, start, tol, most)
        left = primal(x, atoms, bias, lam, dense(out, len(atoms))) - best
        assert (left <= out.gap * (1 + 1e-9) + 1e-11).all()
        stopped.append(left.max())
    assert max(stopped) > 1e-6  # some did stop before their time


def test_any_start_leads_to_the_same_codes() -> None:
    x, atoms, bias, lam = draw("overcomplete")
    cold = resolve(x, atoms, bias, lam, tol=1e-13)
    for low in (cold, resolve(x, atoms, bias, 3 * lam), resolve(x + 0.3, atoms, bias, lam)):
        warm = resolve(x, atoms, bias, lam, sp.csr_array(dense(low, len(atoms))), tol=1e-13)
        np.testing.assert_allclose(dense(warm, len(atoms)), dense(cold, len(atoms)), atol=1e-10)


def test_single_precision_rows_threads_blocks_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, atoms, bias, lam = draw("wide")
    x = x.astype(np.float32)
    whole = dense(resolve(x, atoms, bias, lam, tol=1e-13), len(atoms))
    parts = resolve_batches(ArrayRows(torch.from_numpy(x)), atoms, bias, lam, size=7, tol=1e-13)
    np.testing.assert_allclose(np.vstack([dense(out, len(atoms)) for _, out in parts]), whole, atol=1e-10)
    monkeypatch.setattr(lasso, "SMALL", 0)
    monkeypatch.setattr(lasso, "BLOCK", 1)
    monkeypatch.setattr(lasso, "TABLE", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    np.testing.assert_allclose(dense(resolve(x, atoms, bias, lam, tol=1e-13), len(atoms)), whole, atol=1e-10)


def test_a_large_lam_leaves_every_code_empty() -> None:
    x, atoms, bias, _ = draw("plain")
    out = resolve(x, atoms, bias, 100.0)
    assert len(out.values) == 0
    assert not out.gap.any()


def test_data_and_lam_scale_together() -> None:
    x, atoms, bias, lam = draw("plain")
    one = resolve(x, atoms, bias, lam, tol=1e-13)
    many = resolve(1000 * x, atoms, 1000 * bias, 1000 * lam, tol=1e-13)
    np.testing.assert_allclose(1000 * dense(one, 12), dense(many, 12), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": float("nan")}, "lam"),
        ({"atoms": np.full((12, 8), 1.0)}, "atoms"),
        ({"x": np.ones((40, 9))}, "x"),
        ({"x": np.full((40, 8), np.nan)}, "x"),
        ({"start": sp.csr_array((40, 3))}, "start"),
        ({"start": sp.csr_array(-np.ones((40, 12)))}, "start"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_one_line(change: dict, argument: str) -> None:
    x, atoms, bias, lam = draw("plain")
    given = {"x": x, "atoms": atoms, "bias": bias, "lam": lam, "start": None} | change
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]+$"):
        resolve(**given)
