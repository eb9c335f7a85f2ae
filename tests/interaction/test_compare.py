"""Other people's models: the shipped table, p against scipy's, leaving one out by hand, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.interaction.compare import INTERVAL, ModelRow, compare_models, distances, read_models, small_llms


def rows(n: int, seed: int = 0, slope: float = -400.0) -> list[ModelRow]:
    stream = rng(seed, "models")
    layers = 12 + np.arange(n)
    made = [ModelRow(f"m{i}", int(k), 2048, 20.0, "one", 1 + 0.1 * i) for i, k in enumerate(layers)]
    away = distances(made)
    return [
        replace(row, score=float(30 + slope * d + stream.standard_normal())) for row, d in zip(made, away, strict=True)
    ]


def test_the_distance_is_to_the_nearer_end():
    shapes = [(16, 2048), (24, 896), (47, 1000), (50, 1000)]
    table = [ModelRow(str(i), *shape, 1.0, "") for i, shape in enumerate(shapes)]
    np.testing.assert_allclose(distances(table), [0.023 - 16 / 2048, 0, 0, 0.003], atol=1e-15)
    np.testing.assert_allclose(
        distances(table, (0.049, 0.06)), [0.049 - 16 / 2048, 0.049 - 24 / 896, 0.002, 0], atol=1e-15
    )


@pytest.mark.parametrize("n", [6, 12])
def test_numbers_of_a_group(n: int):
    table = rows(n, slope=-150.0)
    whole = compare_models(table)[0]
    x, y = distances(table), np.array([row.score for row in table])
    assert whole.pearson.value == pytest.approx(stats.pearsonr(x, y)[0])
    assert whole.spearman.value == pytest.approx(stats.spearmanr(x, y)[0])
    left = [float(np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1]) for i in range(n)]
    assert whole.leave_one_out_low.value == pytest.approx(min(left))
    assert whole.leave_one_out_high.value == pytest.approx(max(left))
    assert whole.leave_one_out_high.note == f"without m{int(np.argmax(left))}"
    p = stats.permutation_test(
        (x,), lambda a: abs(np.corrcoef(a, y)[0, 1]), permutation_type="pairings", alternative="greater",
        n_resamples=2000 if n > 6 else 1000, rng=0,
    ).pvalue  # fmt: skip
    assert whole.permutation_p.value == pytest.approx(p, abs=1e-12 if n == 6 else 0.02)
    assert "all orders" in whole.permutation_p.note if n == 6 else "9999 random orders" in whole.permutation_p.note


def test_no_relation_is_rarely_significant():
    p = [compare_models(rows(7, seed, slope=0.0), draws=2)[0].permutation_p.value or 0.0 for seed in range(100)]
    assert sum(value <= 0.05 for value in p) <= 12
    assert 0.35 <= float(np.mean(p)) <= 0.65


def test_groups_are_by_size_and_small_ones_are_not_known():
    found = {
        group.name: group for group in compare_models(rows(8), groups={"small": (1.0, 1.31), "large": (1.31, 9.0)})
    }
    assert [row.model for row in found["small"].rows] == ["m0", "m1", "m2", "m3"]
    assert found["small"].pearson.known
    table = [*rows(8)[:4], *(replace(row, layers=60) for row in rows(8)[4:])]
    found = {group.name: group for group in compare_models(table, groups={"few": (0.0, 1.21), "same": (1.31, 9.0)})}
    for name, word in (("few", "3 pairs"), ("same", "constant")):
        assert all(outcome.value is None and word in outcome.note for outcome in found[name].outcomes())


def one_score(table: list[ModelRow]) -> list[ModelRow]:
    return [replace(row, score=20.0) for row in table]


def one_shape(table: list[ModelRow]) -> list[ModelRow]:
    return [replace(row, layers=24, hidden=896) for row in table]


def two_protocols(table: list[ModelRow]) -> list[ModelRow]:
    return [replace(table[0], protocol="other"), *table[1:]]


def twice(table: list[ModelRow]) -> list[ModelRow]:
    return [*table, table[0]]


def without_score(table: list[ModelRow]) -> list[ModelRow]:
    return [replace(table[0], score=math.nan), *table[1:]]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda table: table[:3], "table must have at least 4 rows; got 3"),
        (one_score, "table must have scores that differ"),
        (one_shape, "table must have distances to the interval that differ"),
        (two_protocols, "table must be of one protocol.*pass mixed=True"),
        (twice, "table must have one row a model; got m0 2 times"),
        (without_score, "table must hold layers, hidden and a score"),
    ],
)
def test_singular_tables_are_one_line(spoil: Callable[[list[ModelRow]], list[ModelRow]], word: str):
    with pytest.raises(UserError, match=word) as error:
        compare_models(spoil(rows(6)))
    assert "\n" not in str(error.value)


def test_mixed_protocols_when_said_and_a_bad_interval():
    assert compare_models(two_protocols(rows(6)), mixed=True)[0].pearson.n == 6
    with pytest.raises(UserError, match="interval must be two positive R"):
        compare_models(rows(6), interval=(0.05, 0.02))


def test_the_shipped_table():
    table = small_llms()
    assert len(table) == 35
    assert len({(row.model, row.protocol) for row in table}) == 35
    assert all(("report" in row.source or "card" in row.source) for row in table)
    assert all(("card" in row.protocol) == ("card" in row.source) for row in table)
    assert all(0 < row.score < 60 and 0.3 < row.params_b < 10 for row in table)
    shapes = {row.model: (row.layers, row.hidden) for row in table}
    assert all(shapes[row.model] == (row.layers, row.hidden) for row in table)
    # the only ones inside the paper's interval are below a billion parameters
    assert {row.model for row in table if INTERVAL[0] <= row.ratio <= INTERVAL[1] and row.params_b > 0.7} == set()
    for name, ratio in (("Llama-3.2-1B", 0.0078), ("Qwen2.5-0.5B", 0.0268), ("Gemma-3-1B-pt", 0.0226)):
        assert next(row.ratio for row in table if row.model == name) == pytest.approx(ratio, abs=5e-5)


def test_reading_a_table(tmp_path: Path):
    path = tmp_path / "models.csv"
    path.write_text("model,layers,hidden,score,protocol\na,16,2048,11.7,p\n")
    (row,) = read_models(path)
    assert (row.model, row.layers, row.hidden, row.score, row.source) == ("a", 16, 2048, 11.7, "")
    assert math.isnan(row.params_b)
    for text, word in (
        ("model,layers\na,16\n", "line 2"),
        ("model,layers,hidden,score,protocol\na,x,1,2,p\n", "line 2"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=word) as error:
            read_models(path)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="path must be a CSV file"):
        read_models(tmp_path / "none.csv")
