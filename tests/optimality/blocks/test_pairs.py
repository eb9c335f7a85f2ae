"""Pair screens: never wrong against a cone solver, and right on both sides of every threshold known in closed form."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from tests.optimality.blocks.dense import as_blocks, codes_of, frames_of, planted, solved, stationary

from monoseme.optimality.blocks import Blocks
from monoseme.optimality.blocks.moves import pair_move
from monoseme.optimality.blocks.pairs import merge_moments, pair_moments, screen, screen_columns, survey


def slow_m(z: np.ndarray, frames: np.ndarray, h: int, j: int) -> np.ndarray:
    """M_hj = E[1_{j on} z_hᵀ u_j] - Σ_h D_h D_jᵀ, by its definition."""
    size_h, size_j = np.linalg.norm(z[:, h], axis=1), np.linalg.norm(z[:, j], axis=1)
    u_j = z[:, j] / np.where(size_j > 0, size_j, 1)[:, None]
    u_h = z[:, h] / np.where(size_h > 0, size_h, 1)[:, None]
    return (z[:, h].T @ u_j - (z[:, h].T @ u_h) @ frames[h] @ frames[j].T) / len(z)


class Cone:
    """max ⟨B, M⟩ - E[1_{j off} ‖z_h B‖] over ‖B‖_F ≤ 1, exactly: positive iff some B breaks the condition. Clarabel."""

    def __init__(self, b: int, n: int) -> None:
        self.z, self.m, weights = cp.Parameter((n, b)), cp.Parameter((b, b)), cp.Variable((b, b))
        cost = cp.sum(cp.norm(self.z @ weights, axis=1)) / n
        value = cp.sum(cp.multiply(weights, self.m)) - cost
        self.problem = cp.Problem(cp.Maximize(value), [cp.norm(weights, "fro") <= 1])

    def value(self, z: np.ndarray, frames: np.ndarray, h: int, j: int) -> float:
        off = np.abs(z[:, j]).sum(1) == 0
        self.z.value, self.m.value = z[:, h] * off[:, None], slow_m(z, frames, h, j)
        return solved(self.problem)


def test_screens_are_never_wrong_against_a_cone_solver() -> None:
    """150 ordered pairs: independent, leaking and strict children, aligned frames, blocks of 1 to 3 directions."""
    r, n, seen = np.random.default_rng(0), 60, {1: 0, 0: 0, -1: 0}
    cones = {b: Cone(b, n) for b in (1, 2, 3)}
    for case in range(75):
        b, tilt, leak = case % 3 + 1, r.random() < 0.3, (1.0, 0.4, 0.0)[case % 5 % 3]
        frames, z = frames_of(r, 2, b, 7), codes_of(r, n, 2, b, 0.3)
        if tilt:
            mixed = frames[0] + r.uniform(0.1, 1) * r.standard_normal((b, b)) @ frames[1]
            frames[0] = np.linalg.qr(mixed.T)[0].T
        on = np.abs(z[:, 1]).sum(1) > 0
        if leak < 1:
            z[:, 0] = (r.random() * z[:, 1] @ r.standard_normal((b, b)) + 0.5 * r.standard_normal((n, b))) * on[:, None]
            z[:, 0] += r.standard_normal((n, b)) * ((r.random(n) < leak) & ~on)[:, None]
        found = [s for s in screen_columns(as_blocks(frames, z))]
        labels = {(int(h), int(j)): int(v) for s in found for h, j, v in zip(s.h, s.j, s.label, strict=True)}
        for h, j in ((0, 1), (1, 0)):
            label, exact = labels.get((h, j), 1), cones[b].value(z, frames, h, j)
            seen[label] += 1
            scale = np.linalg.norm(z[:, h], axis=1).mean()
            assert exact <= 1e-6 * scale or label < 1, (case, h, exact)
            assert exact > 1e-7 * scale or label > -1, (case, h, exact)
            if b == 1:
                assert label != 0, "with scalars nothing is between"
    assert min(seen.values()) >= 10, seen


def test_moments_are_those_of_the_definition_and_merge() -> None:
    r, n, g, b = np.random.default_rng(1), 60, 5, 2
    frames, z = frames_of(r, g, b, 6), codes_of(r, n, g, b, 0.3)
    z[:, 4] = 0
    whole = pair_moments(as_blocks(frames, z))
    parts = [pair_moments(as_blocks(frames, z[part])) for part in (slice(0, 25), slice(25, 60))]
    columns = [pair_moments(as_blocks(frames, z), low, low + 1) for low in range(g)]
    merged = merge_moments(*parts)
    assert sum(len(c.h) for c in columns) == len(whole.h)
    assert merged.n == n
    size = np.linalg.norm(z, axis=2)
    c = np.einsum("ngb,gbd->ngd", z, frames)
    for moments in (whole, merged):
        for p, (h, j) in enumerate(zip(moments.h, moments.j, strict=True)):
            both = (size[:, h] > 0) & (size[:, j] > 0)
            zh, zj, sh, sj = z[both, h], z[both, j], size[both, h, None], size[both, j, None]
            apart = sh[:, 0] + sj[:, 0] - np.linalg.norm(c[both, h] + c[both, j], axis=1)
            assert moments.both[p] == both.sum()
            np.testing.assert_allclose(moments.cross[p], zh.T @ (zj / sj), atol=1e-12)
            np.testing.assert_allclose(moments.on[p], zh.T @ (zh / sh), atol=1e-12)
            np.testing.assert_allclose(moments.ratio[p], zh.T @ (zh / sj), atol=1e-12)
            np.testing.assert_allclose(moments.shared[p], apart.sum(), atol=1e-12)
            np.testing.assert_allclose(moments.overlap[p], frames[h] @ frames[j].T, atol=1e-12)
    one, other = (screen(m, as_blocks(frames, z).moment) for m in (whole, merged))
    place = np.lexsort((one.h, one.j))
    np.testing.assert_array_equal(one.label[place], other.label)
    np.testing.assert_allclose(one.strain[place], other.strain)


def independent(p: float, c: float, levels: int = 5, angles: int = 8) -> Blocks:
    """Two blocks on independently on exactly a share p of the rows, isotropic, with D_h D_jᵀ = c I."""
    turn = 2 * np.pi * np.arange(angles) / angles
    circle = np.stack([np.cos(turn), np.sin(turn)], 1)
    on = np.arange(levels) < round(p * levels)
    codes = (on[:, None, None] * circle).reshape(-1, 2)
    m = len(codes)
    z = np.stack([np.repeat(codes, m, 0), np.tile(codes, (m, 1))], 1)
    tilted = np.concatenate([c * np.eye(2), np.sqrt(1 - c * c) * np.eye(2)], 1)
    return as_blocks(np.stack([tilted, np.eye(4)[:2]]), z)


@pytest.mark.parametrize("p", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.01, 1.2])
def test_coherence_of_independent_blocks_is_stable_up_to_one_minus_p(p: float, share: float) -> None:
    """15 cells: isoclinic isotropic blocks are stable iff c ≤ 1 - p."""
    on = independent(p, share * (1 - p))
    s = next(iter(screen_columns(on)))
    assert set(s.label.tolist()) == ({1} if share < 1 else {-1})
    np.testing.assert_allclose(s.strain, share, rtol=1e-9)
    gain = pair_move(on, 0, 1, learned_bias=False)[1].gain
    assert (gain > 0) == (share > 1)


def child(q: float, mean: float, b: int, n: int = 2000) -> Blocks:
    """A one-signed child, orthogonal to its parent, off with it but for a share q; ‖mean parent direction‖ = `mean`."""
    z = np.zeros((n, 2, b))
    on = np.arange(n) < 1000
    z[on, 0, 0] = 1.0
    leak = on & (np.arange(n) < round(1000 * q))
    with_parent = np.flatnonzero(on & ~leak)
    if b == 1:
        signs = np.where(np.arange(len(with_parent)) < round(len(with_parent) * (1 + mean) / 2), 1.0, -1.0)
        z[with_parent, 1, 0] = 2 * signs
    else:  # two directions, ± an angle whose cosine is `mean`
        z[with_parent, 1, 0] = 2 * mean
        z[with_parent, 1, 1] = 2 * np.sqrt(1 - mean**2) * np.where(np.arange(len(with_parent)) % 2, 1, -1)
    rest = np.flatnonzero(~on)[:600]
    z[rest, 1] = np.random.default_rng(0).standard_normal((600, b))
    return as_blocks(np.eye(4)[: 2 * b].reshape(2, b, 4), z)


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.3, 0.6])
def test_a_child_is_absorbed_iff_the_parents_mean_direction_exceeds_the_odds_of_a_leak(b: int, q: float) -> None:
    """Orthogonal one-signed child: stable iff ‖ū‖ ≤ q/(1 - q)."""
    for mean in (0.04, 0.3, 0.7, 1.0):
        on = child(q, mean, b)
        s = next(iter(screen_columns(on)))
        label = dict(zip(s.h.tolist(), s.label.tolist(), strict=True))[0]
        absorbed = mean > q / (1 - q)
        assert label == (-1 if absorbed else 1), (mean, label)
        assert (pair_move(on, 0, 1, learned_bias=False)[1].gain > 0) == absorbed


def test_no_pair_is_unstable_at_a_stationary_point() -> None:
    """At K1-K3 the residuals themselves are weights that prove every pair, so a screen that says otherwise is wrong."""
    x = np.random.default_rng(3).standard_normal((80, 6)) * np.linspace(0.4, 1.5, 6)
    for seed, (g, b, lam) in enumerate([(3, 2, 0.4), (4, 1, 0.3), (2, 3, 0.3)]):
        on, _ = stationary(x, g, b, lam, seed)
        found = survey(on)
        assert found.counts[-1] == 0
        assert found.counts[1] + found.counts[0] > 0
        assert found.strain.max() <= 1


def test_a_survey_keeps_the_worst_partners() -> None:
    x, frames, z = planted(np.random.default_rng(4), 500, 6, 2, 14)
    del x
    z[:, 5] = 0
    on = as_blocks(frames, z)
    found = survey(on)
    assert found.candidates[1][0] == 0
    assert found.strained_by[1] == 0
    assert np.isinf(found.strain[1])
    assert found.strained_by[5] == -1
    assert sum(found.counts.values()) + found.silent == 30
    c = np.einsum("ngb,gbd->ngd", z, frames)
    h, j = found.sharing
    most = (np.linalg.norm(c[:, [h, j]], axis=2).sum(1) - np.linalg.norm(c[:, h] + c[:, j], axis=1)).mean()
    assert found.shared == pytest.approx(most)
