"""The loss in its three forms: equal where they should be, convex in Q, and no function of Q for signed codes."""

from __future__ import annotations

import numpy as np
import pytest

from monoseme import UserError
from monoseme.optimality.objective import balanced, gram_loss, loss, ridge_atoms, symmetric_loss, unit_atoms


def draw(seed: int, signed: bool = False):
    r = np.random.default_rng(seed)
    n, d, k, lam = int(r.integers(3, 9)), int(r.integers(1, 6)), int(r.integers(1, 10)), float(r.uniform(0.05, 2))
    x, b = r.standard_normal((n, d)), r.standard_normal(d)
    w = r.standard_normal((k, d))
    z = r.standard_normal((n, k))
    return x, w / np.linalg.norm(w, axis=1, keepdims=True), z if signed else np.maximum(z, 0), b, lam


def test_the_loss_is_its_definition_row_by_row() -> None:
    x, w, z, b, lam = draw(0)
    by_hand = 0.0
    for i in range(len(x)):
        r = x[i] - b - sum(z[i, k] * w[k] for k in range(len(w)))
        by_hand += float(r @ r + 2 * lam * z[i].sum()) / len(x)
    assert loss(x, w, z, b, lam) == pytest.approx(by_hand, rel=1e-13)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("signed", [False, True])
def test_the_symmetric_form_is_least_where_it_is_balanced(seed: int, signed: bool) -> None:
    x, w, z, b, lam = draw(seed, signed)
    whole = loss(x, w, z, b, lam)
    v, y = balanced(w, z)
    np.testing.assert_allclose(y @ v, z @ w, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), np.abs(y).mean(0), atol=1e-12)
    assert symmetric_loss(x, v, y, b, lam) == pytest.approx(whole, rel=1e-12)
    live = np.abs(z).max(0) > 0
    back = unit_atoms(v, y)
    np.testing.assert_allclose(back[0][live], w[live], atol=1e-12)
    np.testing.assert_allclose(back[1], z, atol=1e-12)
    scale = np.exp(np.random.default_rng(seed).standard_normal(len(w)))  # any other share of the scale costs more
    assert symmetric_loss(x, v / scale[:, None], y * scale, b, lam) > whole


@pytest.mark.parametrize("seed", range(20))
def test_the_form_in_q_is_the_ridge_regression(seed: int) -> None:
    x, w, z, b, lam = draw(seed)
    _, y = balanced(w, z)
    v = ridge_atoms(x, y, b, lam)
    least = symmetric_loss(x, v, y, b, lam)
    assert gram_loss(x, y @ y.T, b, lam) == pytest.approx(least, rel=1e-11)
    for step in np.random.default_rng(seed).standard_normal((5, *v.shape)):
        assert symmetric_loss(x, v + 0.1 * step, y, b, lam) > least
    # so no dictionary with these codes, up to scales, is better
    assert least <= loss(x, w, z, b, lam) + 1e-12


def test_q_forgets_how_many_atoms_there_were() -> None:
    x, _, _, b, lam = draw(1)
    y = np.abs(np.random.default_rng(1).standard_normal((len(x), 3)))
    # the first latent cut into two copies: another width, the same Q, the same value
    wider = np.concatenate([y[:, :1] * 0.6, y[:, :1] * 0.8, y[:, 1:]], 1)
    np.testing.assert_allclose(wider @ wider.T, y @ y.T, atol=1e-12)
    values = [symmetric_loss(x, ridge_atoms(x, code, b, lam), code, b, lam) for code in (y, wider)]
    np.testing.assert_allclose(values, gram_loss(x, y @ y.T, b, lam), rtol=1e-11)


def test_convex_between_any_two_points() -> None:
    bent = 0
    for seed in range(200):
        r = np.random.default_rng([seed, 5])
        n, d, lam = int(r.integers(2, 9)), int(r.integers(1, 5)), float(r.uniform(0.02, 2))
        x, (b, c) = 2 * r.standard_normal((n, d)), r.standard_normal((2, d))
        y, u = (np.maximum(r.standard_normal((n, int(r.integers(1, 2 * n + 1)))), 0) for _ in range(2))
        q, p, t = y @ y.T, u @ u.T, float(r.uniform(0.1, 0.9))
        middle = gram_loss(x, t * q + (1 - t) * p, t * b + (1 - t) * c, lam)
        chord = t * gram_loss(x, q, b, lam) + (1 - t) * gram_loss(x, p, c, lam)
        assert middle <= chord + 1e-10 * chord
        bent += middle < chord * (1 - 1e-6)
    assert bent > 190  # not merely linear


def test_in_atoms_and_codes_it_is_not_convex() -> None:
    # (v, y) and (-v, -y) reconstruct alike; halfway between them nothing is left
    x, b, lam = np.array([[1.0], [1.0]]), np.zeros(1), 0.1
    y = np.ones((2, 1))
    ends = [symmetric_loss(x, s * np.ones((1, 1)), s * y, b, lam) for s in (1.0, -1.0)]
    assert symmetric_loss(x, np.zeros((1, 1)), 0 * y, b, lam) > sum(ends) / 2 + 0.5


def test_signed_codes_of_one_q_have_several_losses() -> None:
    x, b, lam = np.eye(2), np.zeros(2), 0.3
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    values = []
    for y in (np.eye(2), turn):
        np.testing.assert_allclose(y @ y.T, np.eye(2), atol=1e-15)
        values.append(symmetric_loss(x, ridge_atoms(x, y, b, lam), y, b, lam))
    # (E|y|)² summed: 1/2 for the identity, 1 for its rotation
    assert values[1] - values[0] == pytest.approx(lam / 2)
    assert gram_loss(x, np.eye(2), b, lam) == pytest.approx(values[0])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": float("nan")}, "lam"),
        ({"q": np.array([[1.0, 2.0], [0.0, 1.0]])}, "q"),
        ({"q": np.array([[0.0, 1.0], [1.0, 0.0]])}, "q"),
        ({"q": np.full((2, 2), np.nan)}, "q"),
    ],
)
def test_bad_input_is_one_line(change: dict, name: str) -> None:
    given = {"x": np.ones((2, 3)), "q": np.eye(2), "bias": np.zeros(3), "lam": 0.1} | change
    with pytest.raises(UserError, match=f"^{name} must") as caught:
        gram_loss(**given)
    assert "\n" not in str(caught.value)
