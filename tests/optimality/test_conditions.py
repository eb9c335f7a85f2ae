"""K1-K3: at stationary points, in any batches, order and unit, and against sums written out."""

from __future__ import annotations

from dataclasses import fields
from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from tests.optimality.points import blobs, dense, loss, stationary

from monoseme.optimality import conditions
from monoseme.optimality.conditions import Sums, atom_residuals, outcomes, sums
from monoseme.optimality.lasso import resolve

LAM = 0.1
SCALED = {"code_gap": 2, "implied_lam": 1}  # powers of the unit of x; the others are ratios


def draw(seed: int = 0, n: int = 70, d: int = 6, k: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A dictionary and codes that are optimal in nothing; one atom is never active."""
    r = np.random.default_rng([seed, 4])
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < 0.3) * r.exponential(1.0, (n, k))
    z[:, 3] = 0
    return z @ w + 0.2 * r.standard_normal((n, d)), w, z, r.standard_normal(d)


def audit(x, w, z, b, lam, parts: int = 1) -> dict[str, float]:
    cuts = np.array_split(np.arange(len(x)), parts)
    whole = reduce(Sums.merge, (sums(x[c], sp.csr_array(z[c]), w, b, lam) for c in cuts))
    found = {name: outcome.value for name, outcome in outcomes(whole, w, lam).items()}
    return {name: value for name, value in found.items() if value is not None}


def test_every_number_is_what_its_note_says() -> None:
    x, w, z, b = draw()
    r, n, m = x - b - z @ w, len(x), z.mean(0)
    at, on, found = r @ w.T, z > 0, audit(x, w, z, b, LAM)
    moment = np.stack([(z[:, [j]] * r).mean(0) for j in range(9)])
    off = moment - LAM * m[:, None] * w
    side = off - (off * w).sum(1, keepdims=True) * w
    live = m > 0
    twin = {
        "k1_active": np.sqrt(np.square(at[on] - LAM).mean()) / LAM,
        "k1_active_worst": np.abs(at[on] - LAM).max() / LAM,
        "k1_inactive": (at[~on] - LAM).max() / LAM,
        "k1_violations": (at[~on] > LAM).mean(),
        "k2": np.linalg.norm(off) / (LAM * np.linalg.norm(m)),
        "k2_tangent": np.linalg.norm(side) / (LAM * np.linalg.norm(m)),
        "k2_worst": (np.linalg.norm(off, axis=1)[live] / (LAM * m[live])).max(),
        "k3": np.linalg.norm(r.mean(0)) / LAM,
        "longest_residual": np.linalg.norm(r, axis=1).max() / LAM,
        "implied_lam": sum(m[j] * w[j] @ moment[j] for j in range(9)) / sum(m**2),
        "loss_identity": 2 * abs((z * (LAM - at)).sum(1).mean()) / loss(x, w, z, b, LAM),
    }
    gaps = []
    for i in range(n):
        theta = r[i] * min(1.0, LAM / at[i].max())
        dual = np.square(x[i] - b).sum() - np.square(x[i] - b - theta).sum()
        gaps.append(np.square(r[i]).sum() + 2 * LAM * z[i].sum() - dual)
    twin["code_gap"] = float(np.mean(gaps))
    assert twin.keys() == found.keys()
    for name, value in twin.items():
        assert found[name] == pytest.approx(value, rel=1e-10), name
    whole, tangent = atom_residuals(sums(x, sp.csr_array(z), w, b, LAM), w, LAM)
    np.testing.assert_allclose(tangent[live], np.linalg.norm(side, axis=1)[live] / (LAM * m[live]))
    assert whole[3] == tangent[3] == 0


@pytest.mark.parametrize("learned_bias", [True, False])
def test_all_vanish_at_stationary_points_and_lam_is_read_off(learned_bias: bool) -> None:
    for seed in range(4):
        x = blobs(seed)
        w, z, b, bad = stationary(x, 4, LAM, seed, learned_bias, bias=x.mean(0))
        assert bad < 1e-6
        found = audit(x, w, z, b, LAM)
        for name in ("k1_active", "k1_active_worst", "k1_inactive", "k1_violations", "loss_identity", "code_gap"):
            assert found[name] == pytest.approx(0, abs=1e-9), name
        assert found["k2"] < 1e-6
        assert found["k2_worst"] < 1e-5
        assert found["implied_lam"] == pytest.approx(LAM, rel=1e-6)
        assert (found["k3"] < 1e-6) == learned_bias
        assert audit(x, w, 0.9 * z, b, LAM)["k1_active"] > 1e-2


def test_the_code_gap_bounds_what_codes_can_win() -> None:
    for seed in range(5):
        x, w, z, b = draw(seed)
        best = loss(x, w, dense(resolve(x, w, b, LAM, tol=1e-13), 9), b, LAM)
        assert loss(x, w, z, b, LAM) - best <= audit(x, w, z, b, LAM)["code_gap"] + 1e-12


@pytest.mark.parametrize("parts", [2, 7])
def test_batches_do_not_matter(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = (*draw(), LAM)
    whole, split = audit(*given), audit(*given, parts)
    monkeypatch.setattr(conditions, "FLOATS", 20)
    for other in (split, audit(*given)):
        for name, value in whole.items():
            assert other[name] == pytest.approx(value, rel=1e-12), name


def test_order_and_unit_do_not_matter() -> None:
    x, w, z, b = draw()
    order = np.random.default_rng(0).permutation(9)
    one, turned = audit(x, w, z, b, LAM), audit(x, w[order], z[:, order], b, LAM)
    large = audit(1000 * x, w, 1000 * z, 1000 * b, 1000 * LAM)
    for name, value in one.items():
        assert turned[name] == pytest.approx(value, rel=1e-12), name
        assert large[name] == pytest.approx(value * 1000.0 ** SCALED.get(name, 0), rel=1e-10), name


def test_no_active_latent_has_no_implied_lam() -> None:
    x, w, _, b = draw()
    found = outcomes(sums(x, sp.csr_array((70, 9)), w, b, LAM), w, LAM)
    assert found["implied_lam"].value is None
    assert "active" in found["implied_lam"].note
    assert found["k2"].value == 0


def test_sums_of_two_samples_are_sums_of_both() -> None:
    x, w, z, b = draw()
    a, c = (sums(x[s], sp.csr_array(z[s]), w, b, LAM) for s in (slice(0, 20), slice(20, 70)))
    for field in fields(Sums):
        both, turned = (getattr(s, field.name) for s in (a.merge(c), c.merge(a)))
        np.testing.assert_allclose(both, turned, rtol=1e-13)
        np.testing.assert_allclose(
            both, getattr(sums(x, sp.csr_array(z), w, b, LAM), field.name), rtol=1e-11, atol=1e-12
        )
