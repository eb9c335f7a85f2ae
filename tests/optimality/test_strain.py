"""Strain: against the linear programme, closed forms, stationary points, and the laws of tilt."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.optimality.points import blobs, stationary
from tests.optimality.twins import latents_of

from monoseme.core.errors import UserError
from monoseme.optimality import strain as module
from monoseme.optimality.columns import columns
from monoseme.optimality.strain import child_tilt, pair_tilt, soft_certificate, strains


def number(value: float | None) -> float:
    assert value is not None
    return value


def exact(w: np.ndarray, z: np.ndarray, j: int, learned_bias: bool = True) -> tuple[float, np.ndarray]:
    """κ_j by HiGHS: the least κ with 0 ≤ s ≤ κ off j, E[s z_k] = m_k (1 - c_jk), E[s] = 1; and the dual of its rows."""
    off, n, m = z[:, j] == 0, len(z), z.mean(0)
    k = (np.arange(len(w)) != j) & (m > 0)
    a, b = z[off][:, k].T / n, m[k] * (1 - w[k] @ w[j])
    if learned_bias:
        a, b = np.vstack([a, np.full(off.sum(), 1 / n)]), np.append(b, 1.0)
    size = int(off.sum())
    below = np.hstack([np.eye(size), -np.ones((size, 1))])
    found = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=below,
        b_ub=np.zeros(size),
        A_eq=np.hstack([a, np.zeros((len(b), 1))]),
        b_eq=b,
        method="highs",
    )
    return (found.fun, found.eqlin.marginals) if found.status == 0 else (np.inf, np.zeros(len(b)))


def table(w: np.ndarray, z: np.ndarray, learned_bias: bool) -> np.ndarray:
    """The bounds, written out."""
    m, p, found = z.mean(0), (z > 0).mean(0), np.ones(len(w))
    for j in np.flatnonzero(m > 0):
        found[j] = max(1.0, np.inf if p[j] == 1 else 1 / (1 - p[j])) if learned_bias else 1.0
        for k in np.flatnonzero(m > 0):
            cos, rho = w[j] @ w[k], (z[:, k] * (z[:, j] > 0)).mean() / m[k]
            if k != j and 1 - cos > 1e-12:
                found[j] = max(found[j], np.inf if 1 - rho < 1e-12 else (1 - cos) / (1 - rho))
    return found


def draw(seed: int, n: int = 60, k: int = 6, d: int = 4):
    r = np.random.default_rng([seed, 6])
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < r.uniform(0.1, 0.7, k)) * (0.2 + r.exponential(1.0, (n, k)))
    if seed % 3 == 0:
        z[:, 1] *= z[:, 0] > 0
        w[3], z[:, 4] = w[2], 0
    if seed % 5 == 0:
        z[:, 5] += 0.1
        w[2] = -w[0]
    return w, z


@pytest.mark.parametrize("learned_bias", [True, False])
def test_bounds_are_the_formula_and_below_the_programme(learned_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLOATS", 12)
    for seed in range(20):
        w, z = draw(seed)
        latents = latents_of(w, z, learned_bias=learned_bias)
        found = strains(latents, columns(latents), threads=2)
        np.testing.assert_allclose(found.value, table(w, z, learned_bias), rtol=1e-12)
        for j in np.flatnonzero(z.any(0)).tolist():
            assert found.value[j] <= max(exact(w, z, j, learned_bias)[0], 1.0) * (1 + 1e-7)
        if seed % 3 == 0:
            assert np.isinf(found.value[0])
            assert found.partner[0] == 1


@pytest.mark.parametrize("percent", [0.2, 0.5, 1, 2, 4, 8])
def test_a_leaking_hierarchy_has_the_strain_of_the_closed_form(percent: float) -> None:
    n = 4000
    r = np.random.default_rng(int(10 * percent))
    z = np.zeros((n, 2))
    z[:1200, 0] = 0.5 + r.exponential(1.0, 1200)
    z[:400, 1] = 0.5 + r.exponential(1.0, 400)
    leak = round(n * percent / 100)
    z[1200 : 1200 + leak, 1] = 0.5 + r.exponential(1.0, leak)
    w = np.array([[1.0, 0, 0], [0.3, np.sqrt(0.91), 0]])
    latents = latents_of(w, z)
    found = strains(latents, columns(latents))
    closed = (1 - 0.3) / (z[1200:, 1].sum() / z[:, 1].sum())
    assert found.partner[0] == 1
    assert found.value[0] == pytest.approx(closed, rel=1e-12)
    assert exact(w, z, 0)[0] == pytest.approx(closed, abs=1e-6)


def test_a_strict_hierarchy_has_no_finite_strain_and_exclusive_atoms_none() -> None:
    z = np.zeros((300, 3))
    z[:100, 0], z[:40, 1], z[200:250, 2] = 1.0, 0.7, 0.3
    latents = latents_of(np.eye(3), z)
    found = strains(latents, columns(latents))
    assert np.isinf(found.value[0])
    assert found.partner[0] == 1
    assert found.value[2] == pytest.approx(1 / (1 - 50 / 300))
    assert found.partner[2] == -1


def test_at_stationary_points_some_residual_reaches_as_far_as_the_strain_says() -> None:
    lam, tight = 0.1, 0
    for seed in range(20):
        w, z, b, bad = stationary(x := blobs(seed, density=0.5), 4, lam, seed)
        if bad > 1e-6:
            continue  # the steps ended before it was one
        latents = latents_of(w, z, b)
        found = strains(latents, columns(latents))
        slack = np.where(z > 0, 0.0, 1 - (x - b - z @ w) @ w.T / lam)
        never = (z > 0).all(0)
        assert (slack.max(0)[~never] >= found.value[~never] * (1 - 1e-5)).all()
        tight += int((found.value > 1.5).sum())
    assert tight >= 15


def test_the_soft_certificate_is_the_dual_of_the_programme() -> None:
    proven = 0
    for seed in range(12):
        w, z = draw(seed)
        latents = latents_of(w, z)
        by = columns(latents)
        kappa, dual = exact(w, z, 0)
        if not np.isfinite(kappa):
            continue
        index = np.array([k for k in range(1, len(w)) if z[:, k].any()])
        given = (latents, by, 0, index, dual[:-1], float(dual[-1]))
        value = [number(soft_certificate(*given, kappa * c).value) for c in (0.9, 1.0, 1.1)]
        assert value[0] > 1e-6 > value[2]
        assert value[1] == pytest.approx(0, abs=1e-7)
        proven += 1
        rng = np.random.default_rng(seed)
        for _ in range(20):  # no other direction proves what is not so
            any_ = (latents, by, 0, index, rng.standard_normal(len(index)), float(rng.standard_normal()))
            assert number(soft_certificate(*any_, kappa).value) <= 1e-9
    assert proven >= 5


def test_the_interval_of_a_soft_certificate_covers_and_counts_samples() -> None:
    w = np.array([[1.0, 0], [0, 1.0]])
    index, beta = np.array([1]), np.array([1.0])

    def rows(seed: int, n: int = 4000, copies: int = 1):
        r = np.random.default_rng([seed, 8])
        state = r.choice(3, n // copies, p=[0.6, 0.3, 0.1]).repeat(copies)
        z = np.stack([state >= 1, (state == 2) | (r.random(n // copies).repeat(copies) < 0.02)], 1) * 1.0
        latents = latents_of(w, z)
        return latents, columns(latents)

    truth = (0.1 + 0.9 * 0.02) - 5.0 * 0.6 * 0.02
    inside = [soft_certificate(*rows(s), 0, index, beta, 0.0, 5.0) for s in range(300)]
    assert 0.92 <= np.mean([number(o.low) <= truth <= number(o.high) for o in inside]) <= 0.98
    alone, together = (
        soft_certificate(*rows(0, 40_000, 10), 0, index, beta, 0.0, 5.0, sample)
        for sample in (None, np.arange(4000).repeat(10))
    )
    assert alone.value == pytest.approx(together.value)
    wide, narrow = (number(o.high) - number(o.low) for o in (together, alone))
    assert wide > 2.5 * narrow  # about √10
    few = soft_certificate(*rows(0, 200), 0, index, beta, 0.0, 5.0)
    assert few.value is not None
    assert few.low is None
    assert "leak" in few.note
    assert (alone.n, together.n) == (40_000, 4000)


@pytest.mark.parametrize(
    ("change", "argument"),
    [({"j": 1}, "index"), ({"kappa": -1.0}, "kappa"), ({"kappa": float("nan")}, "kappa"), ({"offset": 0.1}, "offset")],
)
def test_a_direction_that_proves_nothing_is_refused_in_one_line(change: dict, argument: str) -> None:
    latents = latents_of(np.eye(2), np.eye(4, 2), learned_bias=False)
    given = {"j": 0, "index": np.array([1]), "weight": np.ones(1), "offset": 0.0, "kappa": 2.0} | change
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]+$"):
        soft_certificate(latents, columns(latents), **given)


@pytest.mark.parametrize(("lam", "q"), [(0.01, 0.2), (0.01, 0.1), (0.005, 0.2)])
def test_two_parts_tilt_by_the_law(lam: float, q: float) -> None:
    both, parent = 0.2, 0.2
    counts = np.round(1000 * np.array([both, q, parent])).astype(int)
    z = np.repeat(np.array([[1.0, 1], [0, 1], [1, 0], [0, 0]]), [*counts, 1000 - counts.sum()], 0)
    truth = np.eye(2, 4)
    w, codes, _, bad = stationary(z @ truth, 2, lam, learned_bias=False, atoms=truth.copy(), bias=np.zeros(4))
    assert bad < 1e-5
    assert ((codes > 0) == (z > 0)).all()
    assert w[0] @ w[1] == pytest.approx(pair_tilt(lam, both, q, parent, 1.0, 1.0), rel=0.1)
    on = codes[z[:, 1] > 0, 1].mean()
    assert w[1] @ truth[0] == pytest.approx(child_tilt(lam, both, q, on), rel=0.05)
