"""Arrays as they come: any layout NumPy can hold is read, or refused in one line."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows, DrawnRows, as_rows, as_tensor

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", ["reversed", "big endian", "transposed", "strided", "expanded"])
def test_layouts(kind: str) -> None:
    array = {
        "reversed": X[::-1],
        "big endian": X.astype(">f4"),
        "transposed": X.T.copy().T,
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "expanded": np.broadcast_to(X[:1], (6, 4)),
    }[kind]
    np.testing.assert_array_equal(ArrayRows(array).x.numpy(), array)


def test_a_read_only_map_is_read_without_a_copy_or_a_word(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = as_tensor(mapped)
    assert tensor.data_ptr() == mapped.ctypes.data
    assert torch.equal(tensor, torch.from_numpy(X))


@pytest.mark.parametrize("kind", [object, np.complex64, "U3", np.longdouble])
def test_other_kinds_are_refused(kind) -> None:
    with pytest.raises(UserError, match=r"^data must hold floating-point rows; got .*astype") as error:
        ArrayRows(X.astype(kind))
    assert "\n" not in str(error.value)


def test_what_is_no_rows_is_refused() -> None:
    unchecked = getattr(as_rows, "__wrapped__", as_rows)  # users have no shape checker before it
    with pytest.raises(UserError, match="data must be a store, rows in memory, or a RowSource; got list"):
        unchecked(X.tolist())


def test_draws_with_replacement_are_a_function_of_the_step_and_reach_every_row_alike() -> None:
    rows = DrawnRows(np.arange(5, dtype=np.float32)[:, None])
    batch = rows.batch(3, 50_000, 0)
    torch.testing.assert_close(batch.x[:, 0], batch.sample.float(), rtol=0, atol=0)
    assert torch.equal(batch.x, rows.batch(3, 50_000, 0).x)
    assert not torch.equal(batch.x, rows.batch(4, 50_000, 0).x)
    counts = torch.bincount(batch.sample, minlength=5)
    assert (counts - 10_000).abs().max() < 5 * 8_000**0.5  # five standard deviations of a binomial
