"""The volume formula's promised shape over a whole grid; and the toy count against its own parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.composition.volume import _purity, _unexplained, monte_carlo_ratio, volume_ratio
from monoseme.core.seeds import generator

GRID = np.meshgrid(np.arange(1, 30), np.arange(1, 20), indexing="ij")


@pytest.mark.parametrize(("least", "best"), [(7, 5), (1, 1), (29, 19)])
def test_one_peak_and_exponential_decay_on_all_sides(least: int, best: int) -> None:
    rho = volume_ratio(*GRID, least_width=least, best_depth=best, primitives=3)
    assert isinstance(rho, np.ndarray)
    assert ((rho > 0) & (rho <= 1)).all()
    assert np.argwhere(rho == rho.max()).tolist() == [[least - 1, best - 1]]
    logs = np.log(rho)
    for steps, at in ((np.diff(logs, axis=0), least - 1), (np.diff(logs, axis=1).T, best - 1)):
        assert (steps[:at] > 0).all()
        assert (steps[at:] < 0).all()
        for side in (steps[:at], steps[at:]):  # a constant factor a step
            if side.size:
                np.testing.assert_allclose(side, side.flat[0], rtol=1e-12)


def test_it_vanishes_with_the_number_of_primitives() -> None:
    values = [float(volume_ratio(7, 5, least_width=7, best_depth=5, primitives=m)) for m in range(1, 200)]
    assert np.all(np.diff(values) < 0)
    assert values[-1] < 1e-40


def test_the_toy_peaks_where_the_formula_says() -> None:
    counts = {(w, layers): monte_carlo_ratio(w, layers, draws=6000) for w in (1, 2, 3, 4) for layers in (1, 2)}
    values = {shape: count.value or 0.0 for shape, count in counts.items()}
    assert max(values, key=lambda shape: values[shape]) == (2, 1)
    for wide, wider in ((2, 3), (3, 4)):
        low, high = counts[wide, 1].low, counts[wider, 1].high
        assert low is not None
        assert high is not None
        assert high < low
    deeper, peak = counts[2, 2].high, counts[2, 1].low
    assert deeper is not None
    assert peak is not None
    assert deeper < peak
    more = monte_carlo_ratio(3, 1, primitives=3, draws=20_000)
    assert more.value is None or more.value < values[3, 1]


def test_purity_is_the_share_of_one_variable() -> None:
    points = torch.cartesian_prod(*[torch.linspace(-1, 1, 7, dtype=torch.float64)] * 2)
    values = torch.stack([points[:, 0].exp(), points[:, 0] + points[:, 1], points[:, 0] * points[:, 1]], 1)
    values = torch.cat([values, torch.full((49, 1), 3.0, dtype=torch.float64)], 1)
    found = _purity(values[None], 2)[0]
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 0.0, 1.0], dtype=torch.float64))


def test_unexplained_is_that_of_least_squares() -> None:
    a = torch.randn(3, 40, 4, generator=generator(0, "a"), dtype=torch.float64)
    y = torch.randn(40, generator=generator(1, "y"), dtype=torch.float64)
    for one, value in zip(a, _unexplained(a, y), strict=True):
        best = torch.linalg.lstsq(one, y[:, None]).solution[:, 0]
        torch.testing.assert_close(value, (one @ best - y).square().mean() / y.var(correction=0), rtol=1e-6, atol=1e-9)


def test_too_few_solutions_are_not_known() -> None:
    found = monte_carlo_ratio(1, 3, primitives=3, draws=500)
    assert found.value is None
    assert "20 are needed" in found.note


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: volume_ratio(0, 1, least_width=2, best_depth=2, primitives=1), "width"),
        (lambda: volume_ratio(1, 1, least_width=2, best_depth=2, primitives=0), "primitives"),
        (lambda: volume_ratio(1, 1, least_width=2, best_depth=2, primitives=1, quiet=1.0), "quiet"),
        (lambda: monte_carlo_ratio(2, 1, primitives=5), "primitives"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
