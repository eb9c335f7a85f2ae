"""Group-lasso codes on fixed frames: the gap is kept, the value is that of an exact solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from tests.optimality.blocks.dense import frames_of, loss_of, solved

from monoseme import UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality.blocks import resolve


@pytest.mark.parametrize(("g", "b", "d"), [(6, 1, 5), (4, 2, 6), (5, 3, 7)])
def test_codes_reach_the_value_of_a_cone_solver(g: int, b: int, d: int) -> None:
    r, lam, n = np.random.default_rng(g), 0.25, 12
    frames, x, bias = frames_of(r, g, b, d), r.standard_normal((n, d)), r.standard_normal(d)
    on, gap = resolve(x, frames, bias, lam, tol=1e-10)
    assert (gap <= 1e-10 * np.square(x - bias).sum(1)).all()
    z = [cp.Variable((n, b)) for _ in range(g)]
    hat = sum((z[k] @ frames[k] for k in range(g)), start=np.zeros((n, d)))
    penalty = sum(cp.sum(cp.norm(z[k], axis=1)) for k in range(g))
    exact = solved(cp.Problem(cp.Minimize(cp.sum_squares(x - bias - hat) + 2 * lam * penalty)))
    assert loss_of(x, on, lam) * n == pytest.approx(exact, abs=1e-6)


def test_sources_and_stretched_blocks() -> None:
    r, lam = np.random.default_rng(0), 0.3
    frames, x = frames_of(r, 4, 2, 6), r.standard_normal((50, 6))
    on, _ = resolve(ArrayRows(x), frames, None, lam)
    stretched, _ = resolve(x, frames * 3, None, lam)
    np.testing.assert_allclose(stretched.to_dense(), on.to_dense(), atol=1e-8)
    assert "not orthonormal" in stretched.notes[0]
    off, gap = resolve(x, frames, None, 100.0)
    assert len(off.indices) == 0
    assert (gap == 0).all()


def test_what_was_not_reached_is_said_by_the_gap() -> None:
    r = np.random.default_rng(1)
    frames, x = frames_of(r, 12, 2, 5), r.standard_normal((20, 5))
    _, gap = resolve(x, frames, None, 0.05, tol=1e-12, sweeps=1, rounds=1)
    assert gap.max() > 1e-6


def test_lam_must_be_positive() -> None:
    with pytest.raises(UserError, match=r"^lam must"):
        resolve(np.ones((3, 4)), np.eye(4).reshape(2, 2, 4), None, 0.0)
