"""Charts of a shape sweep: every point has its numbers and intervals, and the page is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from monoseme.api.shape_charts import (
    against_ratio,
    correlation_table,
    describe_shapes,
    model_table,
    models_chart,
    optima_chart,
    optima_table,
    plane,
    shapes_page,
)
from monoseme.core.seeds import rng
from monoseme.core.stats import mean_of
from monoseme.interaction.across_budgets import optima
from monoseme.interaction.compare import compare_models, small_llms
from monoseme.interaction.correlation import correlations
from monoseme.interaction.shape_table import ShapeTable
from monoseme.records import RunRecord


@pytest.fixture
def table() -> ShapeTable:
    rows = [(b, d, 40.0, s) for b in (6e4, 1.2e5, 1e6) for d in range(1, 9) for s in range(3)]
    budget, depth, width, seed = (np.array(column) for column in zip(*rows, strict=True))
    x, noise = np.log(depth / width / 0.06), rng(0, "charts").standard_normal((2, len(budget)))
    loss = 1 + 0.05 * x * x + 0.005 * noise[0]
    energy = 10 ** (9 + x)
    energy[0] = np.nan
    numbers = {"test_loss": loss, "ratio_out": 0.9 - 0.1 * loss, "aofe_out": energy}
    return ShapeTable(budget, depth.astype(float), width, seed.astype(np.int64), numbers)


def test_points_are_shapes_with_means_over_seeds(table: ShapeTable):
    chart = against_ratio(table, ("test_loss", "ratio_out"))
    assert (chart.x, chart.y, len(chart.points)) == ("R", "test_loss", 24)
    assert [p.series for p in chart.points[::8]] == ["60k", "120k", "1M"]
    point = chart.points[8]
    assert point.label == "1 × 40 at 120k"
    mine = (table.budget == 1.2e5) & (table.depth == 1)
    expected = mean_of(table.column("test_loss")[mine])
    assert (point.values[1].value, point.values[1].low) == pytest.approx((expected.value, expected.low))
    assert point.values[0].value == pytest.approx(1 / 40)
    assert point.seeds[1] == pytest.approx(tuple(table.column("test_loss")[mine]))
    along = [p.values[0].value for p in chart.points[:8]]
    assert along == sorted(along, key=lambda value: value or 0)


def test_the_plane_is_coloured_by_ratio(table: ShapeTable):
    chart = plane(table, "ratio_out", "log10 aofe_out")
    assert list(dict.fromkeys(p.series for p in chart.points)) == ["R 0.023 to 0.047", "R above 0.047"]
    assert chart.points[0].values[1].n == 2  # the seed whose energy is not known is left out of that mean
    assert len(chart.points[0].seeds[0]) == 2
    low = plane(table, "ratio_out", "log10 aofe_out", interval=(0.1, 0.12))
    assert {p.series for p in low.points} == {"R below 0.1", "R 0.1 to 0.12", "R above 0.12"}


def test_the_best_shape_of_each_budget(table: ShapeTable):
    found = optima(table)
    chart = optima_chart(found)
    assert [p.series for p in chart.points] == ["fit"] * 3 + ["lowest shape tested"] * 3
    assert chart.points[1].values[1] is found[1.2e5].fitted
    rows = optima_table(found).rows
    assert [row[0] for row in rows] == ["60k", "120k", "1M"]


def test_tables_of_correlations_and_models(table: ShapeTable):
    found = correlation_table(correlations(table, ("ratio_out",), draws=50))
    assert [row[1] for row in found.rows] == ["60k", "120k", "1M", "pooled budgets", "within budgets"]
    models = [row for row in small_llms() if row.protocol == "Qwen2.5 report base"]
    groups = compare_models(models, draws=50)
    assert model_table(groups).rows[0][:2] == ("all", "11")
    chart = models_chart(groups[0])
    assert len(chart.points) == 11
    assert chart.points[0].values[0].value == pytest.approx(groups[0].distance[0])


def test_the_page(table: ShapeTable, tmp_path: Path):
    record = describe_shapes(table, title="Invented <shapes>")
    index = shapes_page(record, tmp_path)
    text = index.read_text(encoding="utf-8")
    assert "Invented &lt;shapes&gt;" in text
    for word in ("The best shape of each budget", "Ratio against energy", "Along R = depth ÷ width", "slope"):
        assert word in text
    again = RunRecord.load(tmp_path)
    assert again.scatters == record.scatters
    assert again.comparisons == record.comparisons
    assert again.notes == ()
    assert describe_shapes(table.where(table.seed == 0)).notes != ()
