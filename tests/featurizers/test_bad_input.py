"""Every mistake a user can make here gets one line that names the argument, the rule, what came, and the next step."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import BlockTopK, Grassmannian, ReLU, TopK, build, fit, load, units, zoo
from monoseme.featurizers.objective import Objective


def rows(n: int = 64, d: int = 8) -> torch.Tensor:
    return torch.randn(n, d, generator=generator(0))


def nan_at(i: int) -> torch.Tensor:
    x = rows()
    x[i, 3] = float("nan")
    return x


CASES = {
    "k above the blocks": (lambda: TopK(8, 4, k=5), "k must be at most n_blocks = 4; got 5"),
    "k of zero": (lambda: TopK(8, 4, k=0), "k must be a positive integer; got 0"),
    "a fractional size": (lambda: TopK(8, 4.0, k=1), "n_blocks must be a positive integer"),  # pyright: ignore
    "no blocks": (lambda: ReLU(8, 0), "n_blocks must be a positive integer"),
    "an unknown cone": (lambda: TopK(8, 4, k=1, sign="plus"), "sign must be 'nonneg'"),  # pyright: ignore
    "frames too wide": (lambda: Grassmannian(8, 4, 9, k=1), "block_size must be at most d_in = 8"),
    "an unknown featurizer": (lambda: build("TopKK", {}), "Did you mean"),
    "unknown arguments": (lambda: build("TopK", {"depth": 3}), "arguments must fit TopK"),
    "another width to encode": (lambda: TopK(8, 4, k=1).encode(rows(d=9)), "x must have width d_in = 8"),
    "too large for single precision": (
        lambda: TopK(8, 4, k=1).encode(rows().double() * 1e300),
        "NaN or infinity in row 0",
    ),
    "NaN to encode": (lambda: TopK(8, 4, k=1).encode(nan_at(7)), "NaN or infinity in row 7"),
    "another featurizer's code": (
        lambda: TopK(8, 4, k=1).decode(BlockTopK(8, 4, 2, k=1).encode(rows())),
        "code must have 4 blocks of size 1",
    ),
    "another width to fit": (
        lambda: fit(TopK(8, 4, k=1), ArrayRows(rows(d=9)), batch_size=8),
        "data must have width d_in = 8",
    ),
    "too little data": (
        lambda: fit(TopK(8, 4, k=1), ArrayRows(rows()), batch_size=65),
        "batch_size must lie in 1..64",
    ),
    "constant rows": (
        lambda: fit(TopK(8, 4, k=1), ArrayRows(torch.full((64, 8), 3.3)), batch_size=8),
        "data must vary between rows",
    ),
    "rows that differ by less than a float can": (
        lambda: fit(TopK(8, 4, k=1), ArrayRows(rows().double() * 1e-60), batch_size=8),
        "data must vary between rows; got 64 rows of variance",
    ),
    "no rows": (lambda: ArrayRows(rows()[:0]), "data must hold at least one row"),
    "integers to fit": (lambda: TopK(8, 4, k=1).fit(rows().long()), "data must hold floating-point rows"),
    "L1 without a weight": (lambda: fit(ReLU(8, 4), ArrayRows(rows()), batch_size=8), "lam must be above 0 for ReLU"),
    "a negative weight": (lambda: Objective(ReLU(8, 4), lam=-1), "lam must be at least 0"),
    "nothing to fit": (lambda: fit({}, ArrayRows(rows())), "featurizers must hold at least one"),
    "a block that is not there": (lambda: Code.from_dense(torch.ones(2, 3, 1)).entries_of(3), "block must lie in 0..2"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_names_the_argument(case):
    mistake, message = CASES[case]
    with pytest.raises(UserError) as error:
        mistake()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_nan_row_stops_the_fit_with_finite_weights():
    x = rows(640)
    x[333, 2] = float("inf")
    featurizer = TopK(8, 16, k=2)
    with pytest.raises(UserError, match="sample 333") as error:
        fit(featurizer, ArrayRows(x), steps=100, batch_size=16)
    assert "\n" not in str(error.value)
    assert all(bool(torch.isfinite(p).all()) for p in featurizer.state_dict().values())


@pytest.mark.parametrize("make", [lambda: TopK(8, 16, k=2), lambda: Grassmannian(8, 6, 2, k=2)])
def test_batches_of_one_row_train(make):
    featurizer = make()
    fit(featurizer, ArrayRows(rows()), steps=30, batch_size=1, aux="dead")
    assert bool(torch.isfinite(featurizer.decode(featurizer.encode(rows()))).all())


def test_a_batch_of_equal_rows_trains_when_the_data_varies():
    x = rows().repeat_interleave(1, 0)
    x[:32] = x[0]
    featurizer = TopK(8, 16, k=2)
    fit(featurizer, ArrayRows(x), steps=30, batch_size=4)
    assert bool(torch.isfinite(featurizer.dictionary.weight).all())


def test_zero_rows_have_finite_codes():
    featurizer = TopK(8, 16, k=2, norm="none")
    code = featurizer.encode(torch.zeros(3, 8))
    assert bool(torch.isfinite(featurizer.decode(code)).all())


@pytest.mark.parametrize("damage", ["cut", "other tensors", "no json", "other format", "newer"])
def test_damaged_files_are_named(damage, tmp_path):
    import json

    path = TopK(8, 4, k=1).save(tmp_path / "f")
    if damage == "cut":
        weights = path / "featurizer.safetensors"
        weights.write_bytes(weights.read_bytes()[:-10])
    elif damage == "no json":
        (path / "featurizer.json").unlink()
    else:
        manifest = json.loads((path / "featurizer.json").read_text())
        change = {
            "other tensors": {"arguments": {**manifest["arguments"], "n_blocks": 5}},
            "other format": {"format": "pickle"},
            "newer": {"version": 99},
        }
        (path / "featurizer.json").write_text(json.dumps(manifest | change[damage]))
    with pytest.raises(UserError) as error:
        load(path)
    assert "path must" in str(error.value)
    assert "\n" not in str(error.value)


def test_saving_never_overwrites_a_stranger(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="nothing was overwritten"):
        TopK(8, 4, k=1).save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def edited(path: Path, **changes: object) -> Path:
    TopK(8, 4, k=1).save(path)
    manifest = json.loads((path / "featurizer.json").read_text())
    arguments = changes.pop("arguments", {})
    if isinstance(arguments, dict):
        arguments = manifest["arguments"] | arguments
    (path / "featurizer.json").write_text(json.dumps(manifest | changes | {"arguments": arguments}))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        *({"name": name} for name in (None, 5, ["TopK"], "../../etc/passwd", "__class__")),
        *({"arguments": value} for value in (None, 5, "x", [1])),
        *({"arguments": {"n_blocks": value}} for value in (10**12, "4", None, 4.0)),
        *({"arguments": {"seed": value}} for value in ("a", None, 1e300)),
        *({"arguments": {"learn_bias": value}} for value in ("yes", None, [1])),
        *({"arguments": value} for value in ({"d_in": 10**12}, {"sign": ["x"]}, {"block_size": "x"})),
    ],
)
def test_a_description_edited_by_hand_is_refused(tmp_path, changes, monkeypatch) -> None:
    for module in (zoo, units):  # users have no shape checker before these
        for name in ("check_sign", "Units"):
            if hasattr(getattr(module, name, None), "__wrapped__"):
                monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    path = edited(tmp_path / "f", **changes)
    with pytest.raises(UserError) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_dictionary_larger_than_memory_is_refused() -> None:
    with pytest.raises(UserError, match=r"n_blocks must fit into memory; got 32,000,000 GB"):
        TopK(8, 10**15, k=1)


def test_double_precision_comes_back(tmp_path) -> None:
    featurizer = TopK(8, 4, k=1).double()
    featurizer.dictionary.weight.data /= 3
    assert torch.equal(load(featurizer.save(tmp_path / "f")).atoms, featurizer.atoms)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "checkpoint", "a\0b", "a\nb", "x" * 300, "mine"])
def test_names_that_cannot_be_folders_are_refused_before_training(tmp_path, name) -> None:
    (tmp_path / "run" / "mine").mkdir(parents=True)
    with pytest.raises(UserError) as error:
        fit({name: TopK(8, 4, k=1)}, ArrayRows(rows()), steps=1, batch_size=8, out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


# In the tests a shape checker stands before every function; users have none, so these run in a process without it.
UNCHECKED = {
    "TopK(8, 4, k=1, norm='l2')": "norm must be 'sqrt_d', 'unit' or 'none'; got 'l2'.",
    "TopK(8, 4, k=1, sign='plus')": "sign must be 'nonneg' (R₊ᵇ) or 'free' (Rᵇ); got 'plus'.",
    "TopK(8, 4, k=1).encode(torch.tensor(1.0))": "x must have width d_in = 8 on its last axis; got ().",
    "TopK(8, 4, k=1).encode(torch.ones(3, 8).long())": "x must be floating point; got torch.int64.",
    "TopK(8, 4, k=1).encode(torch.ones(3, 8), refine='l0')": "refine must be None, 'ls' or 'omp'; got 'l0'.",
    "BlockTopK(8, 4, 2, k=1, constraint='cube')": "constraint must be 'ball', 'sphere' or 'atoms'; got 'cube'.",
    "Grassmannian(8, 4, 2, k=1, retraction='svd')": "retraction must be 'polar' or 'cholesky'; got 'svd'.",
    "Grassmannian(8, 4, 2, k=1, retract_every=0)": "retract_every must be a positive integer; got 0.",
    "AuxK(weight=float('nan'))": "weight must be at least 0; got nan.",
    "fit(ReLU(8, 4), ArrayRows(torch.rand(9, 8)), lam=float('nan'))": "lam must be at least 0; got nan.",
    "AuxK(on='all')": "on must be 'dead' or 'runners-up'; got 'all'.",
    "fit(TopK(8, 4, k=1), ArrayRows(torch.rand(9, 8)), aux='zombies')": "aux must be 'dead', 'runners-up'",
    "fit(TopK(8, 4, k=1), ArrayRows(torch.rand(9, 8)), aux=True)": "aux must be 'dead', 'runners-up', an AuxK or None",
    "__import__('monoseme').fit(TopK(8, 4, k=1), 'store')": "data must be a store, rows in memory, or a RowSource",
    "TopK(8, 4, k=1).encode([[1.0] * 8])": "x must be a tensor or an array; got list.",
    "TopK(8, 4, k=1).fit([[1.0] * 8] * 9)": "data must be a tensor or an array; got list.",
    "fit(TopK(8, 4, k=1), ArrayRows(torch.rand(9, 8)), step=3)": "fit() got an unexpected keyword argument 'step'",
}


def test_messages_without_the_shape_checker():
    script = """
import torch
from monoseme.core.rows import ArrayRows
from monoseme.featurizers import *
for mistake in MISTAKES:
    try:
        eval(mistake)
    except (ValueError, TypeError) as error:
        print(error)
    else:
        print("no error")
"""
    program = script.replace("MISTAKES", repr(list(UNCHECKED)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(UNCHECKED)
    for line, expected in zip(lines, UNCHECKED.values(), strict=True):
        assert line.startswith(expected)


def test_arrays_encode_like_tensors():
    f, x = TopK(8, 4, k=2), rows()
    torch.testing.assert_close(f.encode(x.numpy()).values, f.encode(x).values, rtol=0, atol=0)
