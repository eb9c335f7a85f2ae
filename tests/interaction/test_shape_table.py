"""Rows of a shape sweep as arrays, from the engine and from a file; advice that rests on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import rng
from monoseme.interaction.advice import recommend_shape
from monoseme.interaction.shape_table import ShapeTable
from monoseme.learning import grid, sweep


def measure(point: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    if point["depth"] == 5:
        raise RuntimeError("diverged")
    found: dict[str, Any] = {"test_loss": Outcome("loss", point["depth"] + 0.5 * point["seed"], "nats"), "what": "text"}
    return found | ({"ratio_out": 0.9} if point["depth"] == 1 else {})


def test_of_a_finished_sweep(tmp_path: Path):
    points = grid(budget=[60000], depth=[1, 2, 5], width=[48])
    table = ShapeTable.from_sweep(sweep(measure, points, tmp_path, seeds=(0, 1)))
    assert table.budgets == (60000.0,)
    assert table.depth.tolist() == [1, 1, 2, 2]
    assert table.seed.tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(table.ratio, [1 / 48, 1 / 48, 2 / 48, 2 / 48])
    np.testing.assert_allclose(table.column("test_loss"), [1, 1.5, 2, 2.5])
    np.testing.assert_allclose(table.column("ratio_out"), [0.9, 0.9, np.nan, np.nan])
    assert np.isnan(table.column("what")).all()
    means = table.over_seeds()
    np.testing.assert_allclose(means.column("test_loss"), [1.25, 2.25])
    np.testing.assert_allclose(means.column("log10 test_loss"), np.log10([1.25, 2.25]))
    assert means.seed.tolist() == [2, 2]
    with pytest.raises(UserError, match="Did you mean test_loss"):
        table.column("test_los")


def test_of_a_sweep_of_something_else(tmp_path: Path):
    result = sweep(measure, grid(depth=[1, 2]), tmp_path / "a")
    with pytest.raises(UserError, match="sweep must have the setting budget") as error:
        ShapeTable.from_sweep(result)
    assert "\n" not in str(error.value)
    failed = sweep(measure, grid(budget=[1], depth=[5], width=[1]), tmp_path / "b")
    with pytest.raises(UserError, match="sweep must have finished trials"):
        ShapeTable.from_sweep(failed)


def test_of_a_file(tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_text("N,L,d,ce,extra\n100,1,8,2.5,x\n100,2,6,,y\n")
    names = {"budget": "N", "depth": "L", "width": "d", "test_loss": "ce"}
    table = ShapeTable.from_csv(path, names)
    np.testing.assert_allclose(table.column("test_loss"), [2.5, np.nan])
    assert table.seed.tolist() == [0, 0]
    for columns, word in (
        ({**names, "test_loss": "c"}, "columns must be in the file"),
        ({"budget": "N", "depth": "L"}, "columns must name the column of width"),
        ({**names, "more": "extra"}, "path must hold numbers"),
    ):
        with pytest.raises(UserError, match=word) as error:
            ShapeTable.from_csv(path, columns)
        assert "\n" not in str(error.value)
    path.write_text("N,L,d,ce\n")
    with pytest.raises(UserError, match="path must hold rows"):
        ShapeTable.from_csv(path, names)
    with pytest.raises(UserError, match="path must be a CSV file"):
        ShapeTable.from_csv(tmp_path / "none.csv", names)


def test_columns_must_fit():
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(UserError, match="test_loss must have one value a trial"):
        ShapeTable(two, two, two, np.zeros(2, np.int64), {"test_loss": one})
    with pytest.raises(UserError, match="width must be positive"):
        ShapeTable(two, two, 0 * two, np.zeros(2, np.int64), {})


def swept(best: Mapping[float, float], noise: float = 0.002) -> ShapeTable:
    """Three seeds of nine shapes a budget, with the best R of each."""
    depths = np.arange(1.0, 10.0)
    rows = [(b, d, 40.0, s, r) for b, r in best.items() for d in depths for s in range(3)]
    budget, depth, width, seed, at = (np.array(column) for column in zip(*rows, strict=True))
    loss = 1 + 0.05 * np.square(np.log(depth / width / at)) + noise * rng(0, "swept").standard_normal(len(at))
    return ShapeTable(budget, depth, width, seed.astype(np.int64), {"test_loss": loss})


def test_advice_at_and_between_budgets():
    table = swept({1e5: 0.08, 4e5: 0.12})
    at = recommend_shape(1e5, sweep=table)
    assert at.ratio.low is not None
    assert at.ratio.high is not None
    assert at.ratio.low < 0.08 < at.ratio.high
    assert (at.outside, at.tested, at.ratio.note) == (False, (1e5, 4e5), "tested at 100,000")
    between = recommend_shape(2e5, sweep=table)
    assert between.ratio.value == pytest.approx(math.sqrt(0.08 * 0.12), rel=0.1)
    assert between.ratio.low is not None
    assert between.ratio.high is not None
    assert between.ratio.low < math.sqrt(0.08 * 0.12) < between.ratio.high
    assert between.ratio.note == "between 100,000 and 400,000"


def test_advice_outside_the_range_says_so_and_is_wider():
    table = swept({1e5: 0.08, 4e5: 0.12})
    beyond = recommend_shape(1e8, sweep=table, shapes=[(1, 100), (10, 90), (12, 100), (8, 100)])
    assert beyond.outside
    assert "outside the range tested, 100,000 to 400,000" in beyond.ratio.note
    assert "outside the range tested" in str(beyond)
    assert beyond.ratio.value == pytest.approx(0.12, rel=0.1)
    assert beyond.ratio.low is not None
    assert beyond.ratio.high is not None
    assert beyond.ratio.low < 0.08 < 0.12 < beyond.ratio.high
    assert (1, 100) not in beyond.shapes
    away = [abs(math.log(d / w / beyond.ratio.value)) for d, w in beyond.shapes if beyond.ratio.value]
    assert away == sorted(away)
    assert len(away) >= 2


def test_no_advice_where_the_sweeps_own_optimum_is_at_the_edge():
    table = swept({1e5: 0.001, 4e5: 0.12})
    for budget in (5e4, 1e5, 2e5):
        advice = recommend_shape(budget, sweep=table, shapes=[(1, 40)])
        assert advice.ratio.value is None
        assert "at 100,000 parameters, at the edge" in advice.ratio.note
        assert advice.shapes == ()
        assert "not known" in str(advice)
    assert recommend_shape(4e5, sweep=table).ratio.known


@pytest.mark.parametrize(
    ("budget", "shapes", "word"),
    [
        (0.0, (), "budget must be a positive number"),
        (math.inf, (), "budget must be a positive number"),
        (1e5, [(0, 4)], "shapes must be pairs of depth and width"),
    ],
)
def test_advice_refuses(budget: float, shapes: list[tuple[int, int]], word: str):
    with pytest.raises(UserError, match=word) as error:
        recommend_shape(budget, sweep=swept({1e5: 0.1}), shapes=shapes)
    assert "\n" not in str(error.value)
