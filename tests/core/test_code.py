import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.seeds import generator


def ragged(n: int, n_blocks: int, b: int, seed: int) -> torch.Tensor:
    stream = generator(seed, "ragged")
    dense = torch.randn(n, n_blocks, b, generator=stream)
    return dense * (torch.rand(n, n_blocks, 1, generator=stream) < 0.3)


@settings(deadline=None, max_examples=25)
@given(n=st.integers(0, 6), n_blocks=st.integers(1, 9), b=st.integers(1, 4), seed=st.integers(0, 50))
def test_dense_round_trip_and_counts(n, n_blocks, b, seed):
    dense = ragged(n, n_blocks, b, seed)
    code = Code.from_dense(dense)
    assert_close(code.to_dense(), dense, rtol=0, atol=0)
    active = (dense != 0).any(-1)
    assert_close(code.l0, active.sum(1))
    assert_close(code.counts(), active.sum(0))
    assert_close(code.presence, dense[active].norm(dim=-1))


def test_batch_shape_is_kept():
    dense = ragged(6, 5, 2, 0).reshape(2, 3, 5, 2)
    code = Code.from_dense(dense)
    assert code.batch_shape == (2, 3)
    assert_close(code.to_dense(), dense)


def test_cat_and_select_rows_undo_each_other():
    code = Code.from_dense(ragged(9, 5, 2, 1))
    parts = [code.select_rows(0, 4), code.select_rows(4, 4), code.select_rows(4, 9)]
    assert_close(Code.cat(parts).to_dense(), code.to_dense())


def test_entries_of_a_block():
    dense = ragged(9, 5, 2, 2)
    code = Code.from_dense(dense)
    entries = code.entries_of(3)
    assert_close(code.rows[entries], (dense[:, 3] != 0).any(-1).nonzero().squeeze(1))
    with pytest.raises(UserError, match=r"block must lie in 0\.\.4"):
        code.entries_of(5)


def test_repr_says_shape_and_size_instead_of_the_numbers():
    dense = torch.zeros(2, 3, 5, 2)
    dense[0, 1, 4] = 1.0
    assert repr(Code.from_dense(dense)) == "Code(rows (2, 3), 5 blocks of size 2, 1 active)"
