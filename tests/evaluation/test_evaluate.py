"""`evaluate` reads a featurizer as it is: held-out rows, one pass, one-line errors."""

import json
import math

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.evaluation import Evaluation, evaluate


@pytest.fixture(scope="module")
def featurizer(known):
    atoms = torch.randn(12, 2, 6, generator=generator(0, "atoms"))
    return known(torch.nn.functional.normalize(atoms, dim=2), k=3, bias=torch.full((6,), 0.5))


@pytest.fixture(scope="module")
def x():
    return torch.randn(200, 6, generator=generator(1, "rows"))


def test_the_numbers_are_those_of_the_definition(featurizer, x):
    result = evaluate(featurizer, x)
    wide = x.double()
    error = (wide - featurizer.decode(featurizer.encode(x)).double()).square().sum()
    assert result["fvu"].value == pytest.approx(float(error / (wide - wide.mean(0)).square().sum()), rel=1e-6)
    assert result["l0"].value == 3
    assert result["active_dims"].value == 6
    dense = featurizer.encode(x).to_dense()
    np.testing.assert_allclose(result.density, (dense != 0).any(2).double().mean(0))
    assert list(result) == ["fvu", "l0", "active_dims", "dead_share"]


def test_batch_size_changes_nothing(featurizer, x):
    for name, outcome in evaluate(featurizer, x, batch_size=1).items():
        assert outcome.value == pytest.approx(evaluate(featurizer, x)[name].value, rel=1e-5)


def test_refining_helps_and_is_recorded(featurizer, x):
    plain, refined = evaluate(featurizer, x), evaluate(featurizer, x, refine="ls", provenance={"split": "test"})
    assert float(refined["fvu"].value or 0) < float(plain["fvu"].value or 0)
    assert refined["fvu"].provenance == {"split": "test", "refine": "ls"}


def test_rows_of_one_sample_are_one_unit(featurizer, x):
    grouped = evaluate(featurizer, ArrayRows(x, torch.arange(200) // 50), samples="pictures")
    assert (grouped["fvu"].n, grouped["fvu"].n_unit) == (4, "pictures")
    assert grouped["fvu"].value == pytest.approx(evaluate(featurizer, x)["fvu"].value)


def test_json_holds_everything(featurizer, x):
    result = evaluate(featurizer, x)
    again = Evaluation.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False)))
    assert again == result
    np.testing.assert_array_equal(again.density, result.density)


def test_the_table_is_aligned_and_complete(featurizer, x):
    lines = evaluate(featurizer, x).table().splitlines()
    assert [line.split()[0] for line in lines] == ["fvu", "l0", "active_dims", "dead_share"]
    assert "lower is better" in lines[0]
    assert lines[0].index("lower is") == lines[3].index("lower is")


def test_constant_rows_and_one_row_are_answered(featurizer):
    constant = evaluate(featurizer, torch.ones(20, 6))
    assert constant["fvu"].value is None
    assert "not known" in constant.table()
    single = evaluate(featurizer, torch.ones(1, 6))
    assert all(outcome.value is None or math.isfinite(outcome.value) for outcome in single.values())


def test_bad_rows_are_refused_in_one_line(featurizer, x):
    broken = x.clone()
    broken[130, 2] = float("nan")
    cases = [
        (torch.ones(5, 7), "data must have d_in = 6"),
        (torch.ones(0, 6), "data must hold at least one row"),
        (broken, "data must be finite, got a NaN or infinity in sample 130, position 0".replace(",", ";", 1)),
    ]
    for rows, start in cases:
        with pytest.raises(UserError) as caught:
            evaluate(featurizer, rows)
        assert str(caught.value).startswith(start)
        assert "\n" not in str(caught.value)


def test_an_unknown_name_suggests_the_near_ones(featurizer, x):
    with pytest.raises(KeyError, match="Did you mean fvu"):
        evaluate(featurizer, x)["fvu2"]
