"""K1-K3 of blocks: the sums, the values at stationary points, the balance law, and the gap of the codes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimality.blocks.dense import as_blocks, codes_of, frames_of, loss_of, stationary

from monoseme.optimality.blocks import conditions, resolve


def test_sums_are_those_of_the_dense_twin_and_merge() -> None:
    r = np.random.default_rng(0)
    n, g, b, d, lam = 40, 4, 2, 6, 0.3
    frames, z, x = frames_of(r, g, b, d), codes_of(r, n, g, b), r.standard_normal((n, d))
    on = as_blocks(frames, z, r.standard_normal(d))
    whole = conditions.sums(x, on, lam)
    halves = conditions.sums(x[:17], on, lam).merge(conditions.sums(x[17:], on, lam, 17))
    residual = x - on.bias - np.einsum("ngb,gbd->nd", z, frames)
    norm = np.linalg.norm(z, axis=2)
    u = z / np.where(norm > 0, norm, 1)[:, :, None]
    products = np.einsum("nd,gbd->ngb", residual, frames)
    beyond = np.where(norm > 0, 0, np.maximum(np.linalg.norm(products, axis=2) - lam, 0))
    off_by = np.where(norm > 0, np.linalg.norm(products - lam * u, axis=2), 0)
    slow = {
        "n": n,
        "entries": (norm > 0).sum(),
        "square": np.square(residual).sum(),
        "mass": norm.sum(),
        "residual": residual.sum(0),
        "pull": np.einsum("ngb,nd->gbd", z, residual),
        "spread": np.einsum("nga,ngb->gab", z, u),
        "direction": u.sum(0),
        "count": (norm > 0).sum(0),
        "active_square": np.square(off_by).sum(),
        "active_worst": off_by.max(),
        "violations": (beyond > 0).sum(),
        "excess": beyond.max(),
        "again": np.square(beyond).sum(0),
        "longest": np.linalg.norm(residual, axis=1).max(),
    }
    for name, value in slow.items():
        np.testing.assert_allclose(getattr(whole, name), value, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(getattr(halves, name), value, atol=1e-10, err_msg=name)
    assert halves.gap == pytest.approx(whole.gap)
    assert whole.merge(whole).n == 2 * n


CASES = [(5, 2, 1, 0), (6, 3, 2, 1), (7, 2, 3, 2), (8, 4, 2, 3)]


@pytest.mark.parametrize(("d", "g", "b", "seed"), CASES)
def test_a_stationary_point_fulfils_all_of_them(d: int, g: int, b: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((80, d)) * np.linspace(0.3, 1.5, d)
    lam = 0.4
    on, _ = stationary(x, g, b, lam, seed)
    found = conditions.outcomes(conditions.audit(x, on, lam), on.frames, lam)
    for name in ("k1_active", "k1_inactive", "k2", "k2_tangent", "k3", "code_gap", "balance"):
        value = found[name].value
        assert value is not None
        assert value < 2e-5, name
    assert found["implied_lam"].value == pytest.approx(lam, rel=1e-5)
    moved = conditions.outcomes(conditions.audit(x + 0.1, on, lam), on.frames, lam)
    assert (moved["k3"].value or 0) > 0.1, "it can fail"


def test_dense_one_sided_blocks_are_recentred_until_the_balance_law_holds() -> None:
    """A one-signed feature on 80 % of the rows, and an arc on 90 %: the mean direction cannot stay."""
    r, lam, n = np.random.default_rng(0), 0.1, 400
    amplitude = (1 + r.random(n)) * (r.random(n) < 0.8)
    line = amplitude[:, None] * np.array([[1.0, 0, 0, 0]])
    angle = r.vonmises(0, 2.0, n)
    arc = np.stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle], 1) * (r.random((n, 1)) < 0.9)
    for x, b, frame in ((line, 1, np.eye(4)[:1]), (arc, 2, np.eye(4)[:2])):
        before = resolve(x, frame[None], None, lam)[0]
        assert conditions.balance(conditions.audit(x, before, lam)).max() > 0.1, "with the bias at the off state"
        on, _ = stationary(x, 1, b, lam, sweeps=20000)
        assert conditions.balance(conditions.audit(x, on, lam)).max() < 1e-6
        assert loss_of(x, on, lam) < loss_of(x, before, lam)


def test_the_gap_of_the_codes_covers_what_better_codes_win() -> None:
    r, lam = np.random.default_rng(2), 0.2
    frames, x = frames_of(r, 4, 2, 6), r.standard_normal((60, 6))
    best = resolve(x, frames, None, lam, tol=1e-12)[0]
    for scale in (0.0, 0.5, 1.1, 2.0):
        on = as_blocks(frames, best.to_dense() * scale)
        s = conditions.audit(x, on, lam)
        win = loss_of(x, on, lam) - loss_of(x, best, lam)
        assert -1e-12 <= win <= s.gap / s.n + 1e-12


def test_without_any_code_nothing_is_read() -> None:
    on = as_blocks(np.eye(4).reshape(2, 2, 4), np.zeros((5, 2, 2)))
    found = conditions.outcomes(conditions.audit(np.ones((5, 4)), on, 0.1), on.frames, 0.1, learned_bias=False)
    assert not found["implied_lam"].known
    assert "k3" not in found
    assert "balance" not in found
