"""What single changes win: each is carried out, and the loss drops by what was said, or by more."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.optimality.points import blobs, loss, stationary
from tests.optimality.twins import latents_of

from monoseme.optimality.columns import columns
from monoseme.optimality.conditions import sums
from monoseme.optimality.gains import antipodal_pairs, antipode_theorem, duplicates, new_atom, split_gains

LAM = 0.1


def draw(seed: int, n: int = 50, d: int = 5, k: int = 4):
    """Atoms, codes and rows that are optimal in nothing."""
    r = np.random.default_rng([seed, 5])
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < 0.4) * (0.2 + r.exponential(1.0, (n, k)))
    return z @ w + 0.3 * r.standard_normal((n, d)), w, z, 0.1 * r.standard_normal(d)


def batches_of(x, z, parts: int = 3):
    cuts = np.array_split(np.arange(len(x)), parts)
    return lambda: ((x[c], sp.csr_array(z[c])) for c in cuts)


def with_atom(x, w, z, b, lam, atom):
    """The dictionary with one more atom, whose codes are the best for the others frozen."""
    own = np.maximum((x - b - z @ w) @ atom - lam, 0.0)
    return np.vstack([w, atom]), np.hstack([z, own[:, None]])


def test_a_split_wins_at_least_what_is_said() -> None:
    tried = 0
    for seed in range(30):
        x, w, z, b = draw(seed) if seed % 3 else (blobs(seed), *stationary(blobs(seed), 4, LAM, seed)[:3])
        latents = latents_of(w, z, b)
        gain, delta = split_gains(batches_of(x, z), latents, columns(latents), LAM)
        r, before = x - b - z @ w, loss(x, w, z, b, LAM)
        np.testing.assert_allclose((delta * w).sum(1), 0, atol=1e-12)
        for j in np.flatnonzero(gain > 0):
            pull = r @ delta[j]
            reach, cost = (z[:, j] * np.abs(pull)).mean(), np.square(z[:, j]).mean() + LAM * z[:, j].mean()
            assert gain[j] == pytest.approx(reach**2 / cost, rel=1e-10)
            e, root = reach / cost, np.hypot(1, reach / cost)
            copies = np.stack([w[j] + e * delta[j], w[j] - e * delta[j]]) / root
            halves = root * np.stack([z[:, j] * (pull >= 0), z[:, j] * (pull < 0)], 1)
            atoms, codes = np.vstack([np.delete(w, j, 0), copies]), np.hstack([np.delete(z, j, 1), halves])
            assert before - loss(x, atoms, codes, b, LAM) >= gain[j] * (1 - 1e-9)
            tried += 1
    assert tried >= 100


def test_more_passes_find_no_less_and_batches_do_not_matter() -> None:
    x, w, z, b = draw(1)
    latents = latents_of(w, z, b)
    by = columns(latents)
    gains = [split_gains(batches_of(x, z, parts), latents, by, LAM, p)[0] for p, parts in ((1, 1), (3, 2), (8, 7))]
    assert (gains[1] >= gains[0]).all()
    assert (gains[2] >= gains[1] * (1 - 1e-12)).all()
    assert (gains[2] > gains[0]).any()
    np.testing.assert_allclose(split_gains(batches_of(x, z, 1), latents, by, LAM, 8)[0], gains[2], rtol=1e-10)


def test_an_atom_whose_rows_point_along_it_does_not_split() -> None:
    w, z = np.eye(2, 3), np.array([[1.0, 0], [2, 0], [0, 1], [0, 0]])
    x = z @ w + LAM * (z > 0) @ w  # r = λ w on every row
    latents = latents_of(w, z)
    assert split_gains(batches_of(x, z), latents, columns(latents), LAM)[0].max() < 1e-28


def test_an_antipode_wins_exactly_what_is_said() -> None:
    for seed in range(10):
        x, w, z, b = draw(seed)
        said = sums(x, sp.csr_array(z), w, b, LAM).antipode / len(x)
        for j in range(4):
            won = loss(x, w, z, b, LAM) - loss(x, *with_atom(x, w, z, b, LAM, -w[j]), b, LAM)
            assert won == pytest.approx(said[j], rel=1e-9, abs=1e-14)


def test_above_half_the_antipode_theorem_holds_at_stationary_points() -> None:
    above = 0
    for seed in range(24):
        x = blobs(seed, n=40, density=0.75)
        w, z, b, bad = stationary(x, 3, LAM, seed)
        if bad > 1e-6:
            continue  # the steps ended before it was one
        p, won = (z > 0).mean(0), sums(x, sp.csr_array(z), w, b, LAM).antipode / len(x)
        least = antipode_theorem(p, LAM)
        assert (won[p < 1] >= least[p < 1] * (1 - 1e-4)).all()
        assert (least[p <= 0.5] == 0).all()
        above += int(((p > 0.5) & (p < 1)).sum())
    assert above >= 15


def test_a_new_atom_wins_exactly_what_is_said_and_no_direction_more_than_the_ceiling() -> None:
    for seed in range(10):
        x, w, z, b = draw(seed)
        found = new_atom(batches_of(x, z), latents_of(w, z, b), LAM, passes=30)
        won = loss(x, w, z, b, LAM) - loss(x, *with_atom(x, w, z, b, LAM, found.direction), b, LAM)
        assert won == pytest.approx(found.gain, rel=1e-9)
        tried = np.random.default_rng(seed).standard_normal((2000, 5))
        tried /= np.linalg.norm(tried, axis=1, keepdims=True)
        rivals = np.square(np.maximum((x - b - z @ w) @ tried.T - LAM, 0)).mean(0)
        assert rivals.max() <= found.gain * (1 + 1e-9)
        assert found.gain <= found.ceiling


def test_residuals_within_lam_leave_nothing_to_a_new_atom() -> None:
    x, w, z, b = draw(0)
    found = new_atom(batches_of(x, z), latents_of(w, z, b), 100.0)
    assert found.gain == found.ceiling == 0
    assert not found.direction.any()


def test_duplicates_are_grouped_transitively() -> None:
    turn = np.arange(4) * 0.008  # neighbours reach 1 - 3.2e-5, the ends of the chain do not
    chain = np.stack([np.cos(turn), np.sin(turn), 0 * turn], 1)
    atoms = np.vstack([[[0, 0, 1.0]], chain, [[0, 0, -1.0]], [[0, 0, 1.0]], np.zeros((1, 3))])
    assert duplicates(atoms, 1 - 5e-5) == [[0, 6], [1, 2, 3, 4]]
    assert duplicates(atoms) == [[0, 6]]


def test_antipodal_pairs_are_those_of_one_dense_variable() -> None:
    r = np.random.default_rng(0)
    t, n = r.standard_normal(400), 400
    w = np.array([[1.0, 0, 0], [-0.95, np.sqrt(1 - 0.95**2), 0], [0, 0, 1.0], [0, 0, -1.0], [0, -1.0, 0], [0, 1.0, 0]])
    z = np.zeros((n, 6))
    z[:, 0], z[:, 1] = np.maximum(t, 0), np.maximum(-t, 0)  # a pair
    z[:, 2] = z[:, 3] = r.exponential(1.0, n)  # opposite, but on together
    z[:60, 4], z[60:120, 5] = 1.0, 1.0  # opposite, but rare
    latents = latents_of(w, z)
    assert antipodal_pairs(latents, columns(latents)) == [(0, 1)]
    assert antipodal_pairs(latents, columns(latents), either=0.2) == [(0, 1), (4, 5)]
    assert antipodal_pairs(latents, columns(latents), cosine=-0.97) == []
