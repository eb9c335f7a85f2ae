"""Attributes of drawn digits are read back from pixels; what they must not depend on; wrong input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.worlds.digits import DIGITS, _ink, digits, draw_digits, read_digits


@pytest.mark.parametrize("side", [16, 28, 48])
def test_what_was_planted_is_read_back(side: int) -> None:
    made = digits(400, side, seed=1)
    assert made.x.shape == (400, side, side, 3)
    assert 0 <= made.x.min() < made.x.max() <= 1
    read = read_digits(made.x, made.digit)
    away = (read["hue"] - made.hue + 0.5) % 1 - 0.5
    assert np.abs(away).max() < 1e-3
    assert np.abs(read["rotation"] - made.rotation).max() < (0.15 if side < 20 else 0.05)
    assert np.abs(read["thickness"] - made.thickness).max() < (0.03 if side < 20 else 0.01)
    for name in ("rotation", "thickness"):
        assert np.corrcoef(read[name], getattr(made, name))[0, 1] > 0.99


def test_one_attribute_moves_and_the_others_stay() -> None:
    n = 9
    fixed = {"rotation": np.full(n, 0.2), "thickness": np.full(n, 0.2), "hue": np.full(n, 0.7)}
    ranges = {"rotation": (-0.5, 0.5), "thickness": (0.13, 0.33), "hue": (0.1, 0.6)}
    for digit in DIGITS:
        which = np.full(n, digit)
        for name, ends in ranges.items():
            given = {**fixed, name: np.linspace(*ends, n)}
            read = read_digits(draw_digits(which, **given), which)
            for other, values in given.items():
                np.testing.assert_allclose(read[other], values, atol=0.04)


def test_brightness_moves_only_what_it_must() -> None:
    made = digits(50)
    dim = read_digits((0.8 * made.x).astype(np.float32), made.digit)
    own = read_digits(made.x, made.digit)
    np.testing.assert_allclose(dim["hue"], own["hue"], atol=1e-6)
    assert (dim["thickness"] < own["thickness"]).all()  # less ink is a thinner stroke


def test_ink_is_that_of_a_loop_over_pixels() -> None:
    from monoseme.worlds.digits import STROKES

    found, side = _ink(4, 0.3, 0.2, 12), 12
    for i in range(side):
        for j in range(side):
            x, y = ((k - 5.5) / 6 for k in (j, i))
            u, v = np.cos(0.3) * x + np.sin(0.3) * y, -np.sin(0.3) * x + np.cos(0.3) * y
            away = []
            for stroke in STROKES[4]:
                for a, b in itertools.pairwise(stroke):
                    points = np.linspace(0, 1, 4001)[:, None] * (np.array(b) - a) + np.array(a)
                    away.append(np.hypot(*(points - (u, v)).T).min())
            assert found[i, j] == pytest.approx(np.clip(0.5 - (min(away) - 0.1) * 6, 0, 1), abs=2e-3)


def test_the_same_seed_draws_the_same_and_attributes_are_independent() -> None:
    one, two = digits(2000, 8, seed=3), digits(2000, 8, seed=3)
    np.testing.assert_array_equal(one.x, two.x)
    table = np.stack([one.rotation, one.thickness, one.hue, one.digit])
    assert np.abs(np.corrcoef(table) - np.eye(4)).max() < 0.08


def test_no_ink_is_not_read() -> None:
    read = read_digits(np.zeros((2, 28, 28, 3), np.float32), np.array([1, 2]))
    assert all(np.isnan(values).all() for values in read.values())
    grey = read_digits(np.full((1, 28, 28, 3), 0.5, np.float32), np.array([1]))
    assert np.isnan(grey["hue"]).all()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: digits(0), "n must"),
        (lambda: digits(3, 4), "side"),
        (lambda: draw_digits(np.array([8]), np.zeros(1), np.full(1, 0.2), np.zeros(1)), "digit"),
        (lambda: read_digits(np.zeros((2, 8, 8, 3), np.float32), np.array([1])), "pictures"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
