"""Shuffled blocks: the same rows come back, and what the fit put together is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from tests.evaluation.test_blocks_numbers import Fixed, frames

from monoseme.core.seeds import generator
from monoseme.evaluation import Regrouped, description_length, evaluate, shuffled_blocks


def circles(n: int = 3000, G: int = 12, d: int = 24) -> tuple[Fixed, torch.Tensor]:
    """Two of G circles in planes that do not meet."""
    f = Fixed(torch.eye(d, dtype=torch.float64).unflatten(0, (G, 2)), 2)
    draw = generator(0, "circles")
    angle = 2 * math.pi * torch.rand(n, 2, generator=draw, dtype=torch.float64)
    which = torch.rand(n, G, generator=draw).topk(2).indices
    points = torch.stack([angle.cos(), angle.sin()], -1)
    return f, torch.einsum("nkb,nkbd->nd", points, f.atoms[which])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 24])
def test_rows_come_back_and_directions_are_the_same(size: int) -> None:
    f, x = Fixed(frames(6, 4, 30), 2), torch.randn(50, 30, generator=generator(1, "x"), dtype=torch.float64)
    other = shuffled_blocks(f, size, seed=3)
    code = other.encode(x)
    assert code.block_size == size
    np.testing.assert_allclose(other.decode(code).numpy(), f.decode(f.encode(x)).numpy(), atol=1e-12)
    dense, old = code.to_dense().flatten(1), f.encode(x).to_dense().flatten(1)
    np.testing.assert_array_equal(dense.numpy(), old[:, other.order].numpy())
    assert bool((code.values != 0).any(1).all())


def test_in_the_old_order_nothing_changes() -> None:
    f, x = circles()
    same = Regrouped(f, torch.arange(24), 2)
    mine, theirs = same.encode(x), f.encode(x)
    np.testing.assert_array_equal(mine.indptr.numpy(), theirs.indptr.numpy())
    np.testing.assert_array_equal(mine.indices.numpy(), theirs.indices.numpy())
    np.testing.assert_array_equal(mine.values.numpy(), theirs.values.numpy())


def test_what_a_fit_put_together_is_lost() -> None:
    f, x = circles()
    other = shuffled_blocks(f, seed=1)
    a, b = (description_length(one, x).joint["support"].value for one in (f, other))
    assert a is not None
    assert b is not None
    assert a + 2 < b < a + 2.92  # 4 of 12 blocks instead of 2, less where two directions meet: log2(495 / 66) = 2.91
    fvu = [evaluate(one, x, samples="rows")["fvu"].value for one in (f, other)]
    assert fvu[0] == pytest.approx(fvu[1], abs=1e-12)


def test_bad_input() -> None:
    f, _ = circles(10)
    check_refused(lambda: shuffled_blocks(f, 5), "block_size")
    check_refused(lambda: shuffled_blocks(f, 0), "block_size")
    check_refused(lambda: Regrouped(f, torch.zeros(24, dtype=torch.int64), 2), "order")
