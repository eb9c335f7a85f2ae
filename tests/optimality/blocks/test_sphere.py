"""Closed forms on circles and spheres, against the lasso and against integrals done another way."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimality.blocks.dense import loss_of

from monoseme import UserError
from monoseme.optimality.blocks import gains, resolve, sphere
from monoseme.optimality.blocks.frames import batches
from monoseme.optimality.lasso import resolve as nonnegative

CELLS = [(t, lam, k, s) for s in (True, False) for t, lam in ((1.0, 0.05), (1.0, 0.25), (2.0, 0.8)) for k in (3, 4, 6)]


def circle(t: float, n: int) -> np.ndarray:
    turn = 2 * np.pi * (np.arange(n) + 0.5) / n
    return t * np.stack([np.cos(turn), np.sin(turn)], 1)


def fan(k: int, signed: bool) -> np.ndarray:
    turn = np.arange(k) * (np.pi if signed else 2 * np.pi) / k
    return np.stack([np.cos(turn), np.sin(turn)], 1)


@pytest.mark.parametrize(("t", "lam", "k", "signed"), CELLS)
def test_the_loss_of_atoms_on_a_circle_is_that_of_the_lasso(t: float, lam: float, k: int, signed: bool) -> None:
    x, w = circle(t, 1440), fan(k, signed)
    atoms = np.concatenate([w, -w]) if signed else w
    found = nonnegative(x, atoms, np.zeros(2), lam, tol=1e-11)
    z = np.zeros((len(x), len(atoms)))
    z[np.repeat(np.arange(len(x)), np.diff(found.indptr)), found.indices] = found.values
    exact = float(np.square(x - z @ atoms).sum(1).mean() + 2 * lam * z.sum(1).mean())
    assert sphere.circle_loss(t, lam, k, signed) == pytest.approx(exact, abs=2e-6 * t * t)
    gain = sphere.circle_gain(t, lam, k, signed, density=0.5)
    assert gain == pytest.approx((exact - (2 * lam * t - lam * lam)) / 2, abs=2e-6 * t * t)
    assert gain > 0, "a fragmented circle is always improvable"


def test_the_merge_gain_of_two_atoms_on_a_circle_is_the_closed_form() -> None:
    t, lam = 1.0, 0.2
    x = circle(t, 720)
    on = resolve(x, fan(2, True)[:, None], None, lam, tol=1e-12)[0]
    found = gains.merge_gains(lambda: batches(x, 2), on, np.array([[0, 1]]), lam)[0]
    assert found == pytest.approx(sphere.circle_gain(t, lam, 2), abs=1e-5)
    assert loss_of(x, resolve(x, np.eye(2)[None], None, lam)[0], lam) == pytest.approx(2 * lam * t - lam * lam)


def test_many_atoms_lose_as_the_square_of_their_angle() -> None:
    for k in (12, 24):
        phi = np.pi / k
        assert sphere.circle_gain(1.0, 1e-3, k) == pytest.approx(1e-3 * phi**2 / 6, rel=0.05)


def test_tie_prices_are_those_of_the_derivation_and_lie_below_the_root() -> None:
    table = sphere.tie_table()
    expected = {2: (1.272, 1.254, 1.213, 1.168), 3: (1.496, 1.462, 1.381, 1.293)}
    for size, row in expected.items():
        np.testing.assert_allclose(list(table[size].values()), row, atol=1.2e-3)
        assert max(table[size].values()) < np.sqrt(size)
    np.testing.assert_allclose([sphere.tie_price(b, 0.0) for b in (2, 3, 4)], [4 / np.pi, 1.5, 1.69765], rtol=1e-5)
    assert sphere.tie_price(3, 1e-6) == pytest.approx(1.5, rel=1e-5)


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.6])
def test_at_the_tie_price_both_cost_the_same(ratio: float) -> None:
    price = sphere.tie_price(2, ratio)
    assert 2 * ratio * price - (ratio * price) ** 2 == pytest.approx(sphere.circle_loss(1.0, ratio, 2), rel=1e-9)
    price = sphere.tie_price(3, ratio)  # one coordinate on the sphere in three dimensions is uniform
    atoms = 3 * (ratio**3 / 3 + ratio * (1 - ratio**2) - ratio**2 * (1 - ratio))
    assert 2 * ratio * price - (ratio * price) ** 2 == pytest.approx(atoms, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sphere.circle_loss(1.0, 0.9, 2), "t"),
        (lambda: sphere.circle_loss(1.0, 0.1, 2, False), "atoms"),
        (lambda: sphere.tie_price(1, 0.1), "size"),
        (lambda: sphere.tie_price(2, 1.0), "ratio"),
    ],
)
def test_what_has_no_closed_form_is_refused(call, name: str) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert str(caught.value).startswith(f"{name} must")
    assert "\n" not in str(caught.value)
