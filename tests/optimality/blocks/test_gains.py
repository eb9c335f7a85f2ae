"""Gains of single changes, against the change carried out and the codes solved anew."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimality.blocks.dense import as_blocks, codes_of, frames_of, loss, loss_of, planted, stationary

from monoseme.optimality.blocks import Blocks, gains, resolve
from monoseme.optimality.blocks.frames import batches, polar
from monoseme.optimality.blocks.pairs import pair_moments
from monoseme.optimality.wide import universal_bound


def reader(x: np.ndarray, on: Blocks):
    return lambda: batches(x, len(on.directions))


def best_with(y: np.ndarray, frame: np.ndarray, lam: float) -> float:
    """Loss of the rows y with one block, at its best codes, by the solver."""
    return loss_of(y, resolve(y, frame[None], None, lam, tol=1e-13)[0], lam)


@pytest.mark.parametrize("case", range(8))
def test_merging_two_blocks_is_exact_and_covers_the_frozen_gain(case: int) -> None:
    r, lam = np.random.default_rng(case), (0.05, 0.4)[case % 2]
    b, n, d = case % 3 + 1, 50, 8
    frames, z = frames_of(r, 3, b, d), codes_of(r, n, 3, b)
    if case > 4:  # spans with a direction in common
        frames[1] = np.linalg.qr(np.concatenate([frames[0, :1], frames[1, 1:]]).T)[0].T
    x = np.einsum("ngb,gbd->nd", z, frames) + 0.4 * r.standard_normal((n, d))
    on = as_blocks(frames, z)
    pairs = np.array([[0, 1], [2, 0]])
    found = gains.merge_gains(reader(x, on), on, pairs, lam)
    moments = pair_moments(on)
    for (g, h), gain in zip(pairs, found, strict=True):
        rest = x - on.residual(x) - np.einsum("nkb,kbd->nd", z[:, [g, h]], frames[[g, h]])
        u, s, vt = np.linalg.svd(np.concatenate([frames[g], frames[h]]), full_matrices=False)
        del u
        span = vt[s > 1e-8]
        others = 3 - g - h
        carried = loss_of(x, on, lam) - best_with(x - rest, span, lam)
        carried -= 2 * lam * np.linalg.norm(z[:, others], axis=1).mean()
        assert gain == pytest.approx(carried, abs=1e-8)
        frozen = moments.shared[(moments.h == g) & (moments.j == h)][0] / n
        assert 0 <= 2 * lam * frozen <= gain + 1e-12
        penalty = np.linalg.norm(z[:, [g, h]], axis=2).sum(1)
        contributions = x - on.residual(x) - rest
        assert gains.merge_gain(on.residual(x), contributions, penalty, span, lam) == pytest.approx(gain)


def test_blocks_that_are_never_on_together_gain_nothing_but_what_better_codes_win() -> None:
    r, lam = np.random.default_rng(0), 0.2
    frames = np.eye(4).reshape(2, 2, 4)
    y = r.standard_normal((60, 2)) * 2
    x = np.zeros((60, 4))
    x[:30, :2], x[30:, 2:] = y[:30], y[30:]
    on = resolve(x, frames, None, lam)[0]
    assert gains.merge_gains(reader(x, on), on, np.array([[0, 1]]), lam)[0] == pytest.approx(0, abs=1e-9)
    assert gains.merge_gain(x, 0 * x, np.zeros(60), frames[0], lam) > 0
    lost = gains.merge_gain(
        on.residual(x), x - on.residual(x), np.linalg.norm(on.to_dense(), axis=2).sum(1), frames[0], lam
    )
    assert lost < 0, "two dimensions are too few for both"


@pytest.mark.parametrize("case", range(6))
def test_one_more_direction_wins_what_is_said(case: int) -> None:
    r, lam = np.random.default_rng(case), 0.2
    b, n, d, g = case % 3 + 1, 80, 7, 3
    frames, x = frames_of(r, g, b, d), r.standard_normal((n, d)) * np.linspace(0.2, 1.5, d)
    on = resolve(x, frames, None, lam, tol=1e-13)[0]
    gain, direction = gains.widen_gains(reader(x, on), on, lam, passes=30)
    z = on.to_dense()
    for k in range(g):
        normal = direction[k]
        np.testing.assert_allclose(frames[k] @ normal, 0, atol=1e-10)
        residual, norm = on.residual(x), np.linalg.norm(z[:, k], axis=1)
        weight = np.where(norm > 0, 1 / (1 + lam / np.maximum(norm, 1e-300)), 0)
        matrix = (residual * weight[:, None]).T @ residual / n
        across = np.eye(d) - frames[k].T @ frames[k]
        assert gain[k] == pytest.approx(normal @ matrix @ normal)
        assert gain[k] == pytest.approx(np.linalg.eigvalsh(across @ matrix @ across)[-1], rel=1e-3)
        exact = gains.widen_gain(residual, z[:, k], frames[k], normal, lam)
        y = residual + z[:, k] @ frames[k]
        carried = best_with(y, frames[k], lam) - best_with(y, np.concatenate([frames[k], normal[None]]), lam)
        assert exact == pytest.approx(carried, abs=1e-8)
        assert 0 < gain[k] <= exact + 1e-12


def test_a_live_block_with_a_spare_direction_is_no_local_minimum() -> None:
    """Turning the spare row by any angle φ wins sin²φ times as much at least, unless r = λ u D wherever it is on."""
    r, lam, n = np.random.default_rng(1), 0.1, 200
    frame = frames_of(r, 1, 2, 6)
    x = r.standard_normal((n, 1)) * 2 * frame[0, :1] + 0.2 * r.standard_normal((n, 6))
    x -= (x @ frame[0, 1])[:, None] * frame[0, 1]
    on = resolve(x, frame, None, lam)[0]
    assert gains.effective_rank(on.moment)[0] == pytest.approx(1)
    live = as_blocks(frame[:, :1], on.to_dense()[:, :, :1])  # the block without its dead row
    gain, direction = gains.widen_gains(reader(x, live), live, lam, passes=30)
    assert gain[0] > 1e-3
    for phi in (0.01, 0.3, 1.0, np.pi / 2):
        turned = frame.copy()
        turned[0, 1] = np.cos(phi) * frame[0, 1] + np.sin(phi) * direction[0]
        turned, _, _ = polar(turned)
        won = loss_of(x, on, lam) - best_with(x, turned[0], lam)
        assert won >= np.sin(phi) ** 2 * gain[0] - 1e-9
    exact = as_blocks(frame[:, :1], resolve(x * 0 + 2 * frame[0, 0], frame[:, :1], None, lam)[0].to_dense())
    assert gains.widen_gains(reader(x * 0 + 2 * frame[0, 0], exact), exact, lam)[0][0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("case", range(12))
def test_two_rotated_copies_win_what_is_said(case: int) -> None:
    r, lam = np.random.default_rng(case), 0.3
    b, n, d, g = case % 3 + 1, 60, 7, 3
    x, frames, z = (
        planted(r, n, g, b, d, noise=0.5) if case % 2 else (r.standard_normal((n, d)), *_random(r, n, g, b, d))
    )
    on = as_blocks(frames, z)
    gain, delta = gains.split_gains(reader(x, on), on, lam)
    residual = on.residual(x)
    for k in range(g):
        if not z[:, k].any():
            continue
        np.testing.assert_allclose(delta[k] @ frames[k].T, 0, atol=1e-10)
        reach = np.einsum("nb,bd,nd->n", z[:, k], delta[k], residual)
        sizes = np.linalg.norm(z[:, k], axis=1)[:, None]
        weighted = z[:, k] * (1 + lam / np.where(sizes > 0, sizes, 1))
        cost = np.trace(delta[k].T @ (z[:, k].T @ weighted / n) @ delta[k])
        e = np.abs(reach).mean() / cost
        both, codes = np.repeat(frames[k][None], 2, 0), np.zeros((n, 2, b))
        both, stretch, _ = polar(both + e * np.array([1, -1])[:, None, None] * delta[k])
        side = np.where(reach >= 0, 0, 1)
        codes[np.arange(n), side] = np.einsum("nb,nbc->nc", z[:, k], stretch[side])
        kept = [h for h in range(g) if h != k]
        after = loss(x, np.concatenate([frames[kept], both]), np.concatenate([z[:, kept], codes], 1), on.bias, lam)
        assert gain[k] > 0
        assert loss_of(x, on, lam) - after >= gain[k] - 1e-11


def _random(r: np.random.Generator, n: int, g: int, b: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    return frames_of(r, g, b, d), codes_of(r, n, g, b)


def test_one_more_block_is_exact_and_signed_blocks_want_no_antipode() -> None:
    r, lam = np.random.default_rng(2), 0.3
    x = r.standard_normal((60, 6))
    on, _ = stationary(x, 2, 2, lam)
    residual, more = on.residual(x), frames_of(r, 1, 2, 6)[0]
    gain = gains.new_block_gain(residual, more, lam)
    assert gain == pytest.approx(np.square(residual).sum(1).mean() - best_with(residual, more, lam))
    for frame in on.frames:
        assert gains.new_block_gain(residual, frame, lam) == pytest.approx(0, abs=1e-12)


def test_effective_rank_counts_directions() -> None:
    moments = np.stack([np.diag([1.0, 1.0, 1.0]), np.diag([2.0, 0, 0]), np.zeros((3, 3)), np.diag([1.0, 1.0, 0])])
    np.testing.assert_allclose(gains.effective_rank(moments), [3, 1, 0, 2], atol=1e-9)


def test_planted_subspaces_reach_the_universal_bound_at_their_count() -> None:
    """Rows in three planes: three blocks of two dimensions reach the bound of infinite width, two do not."""
    r, lam = np.random.default_rng(3), 0.1
    frames = frames_of(r, 3, 2, 6)
    z = np.zeros((300, 3, 2))
    z[np.arange(300), np.arange(300) % 3] = 0.5 + 0 * r.random((300, 2)) + r.random((300, 2))
    x = np.einsum("ngb,gbd->nd", z, frames)
    bound = universal_bound(x, np.zeros(6), lam)
    assert loss_of(x, resolve(x, frames, None, lam, tol=1e-12)[0], lam) == pytest.approx(bound, rel=1e-6)
    assert loss_of(x, resolve(x, frames[:2], None, lam)[0], lam) > bound * 1.5
