"""Fast loops against the slow twin, and against dense autograd, in float64."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from monoseme.core.cones import block_norms, project
from monoseme.core.kernels import fast, slow
from monoseme.core.seeds import generator
from monoseme.core.support import Support


def pre_codes(n: int, n_blocks: int, b: int, seed: int, kind: str) -> torch.Tensor:
    pre = torch.randn(n, n_blocks, b, dtype=torch.float64, generator=generator(seed, "pre"))
    if kind == "ties":  # few distinct values, many zeros
        pre = pre.round()
    elif kind == "mostly negative":
        pre = -pre.abs()
        pre[:, ::5] *= -1
    elif kind == "equal":
        pre = torch.ones_like(pre)
    elif kind == "zero":
        pre = torch.zeros_like(pre)
    return pre


KINDS = ["random", "ties", "mostly negative", "equal", "zero"]


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(0, 7),
    n_blocks=st.sampled_from([1, 2, 63, 64, 65, 200]),
    b=st.integers(1, 8),
    share=st.floats(0, 1),
    sign=st.sampled_from(["nonneg", "free"]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_selection_equals_a_stable_sort(n, n_blocks, b, share, sign, kind, seed):
    k = 1 + round(share * (n_blocks - 1))
    pre = pre_codes(n, n_blocks, b, seed, kind)
    got = fast.select_topk(pre.reshape(n, n_blocks * b), b, k, sign)
    want = slow.select_topk(pre, k, sign)
    assert_close(got.indptr, want.indptr, rtol=0, atol=0)
    assert_close(got.indices, want.indices, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_selection_with_many_chunks(dtype):
    """Wide enough that the chunk bound works, not only the fallback."""
    pre = torch.randn(40, 4096, 1, dtype=dtype, generator=generator(3))
    for k in (1, 31, 32, 64, 65, 2048, 4096):
        got = fast.select_topk(pre.reshape(40, -1), 1, k, "free")
        assert_close(got.indices, slow.select_topk(pre, k, "free").indices, rtol=0, atol=0)


@pytest.mark.parametrize("sign", ["nonneg", "free"])
@pytest.mark.parametrize("b", range(1, 9))
@pytest.mark.parametrize(
    ("k", "kind"), [(1, "random"), (3, "ties"), (6, "mostly negative"), (20, "random"), (4, "equal")]
)
def test_gradients_equal_dense_autograd(sign, b, k, kind):
    n, n_blocks, d = 5, 20, 6
    stream = generator(b, "gradients")

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=stream).requires_grad_()

    x, weight, bias, atoms = leaf(n, d), leaf(n_blocks, b, d), leaf(n_blocks, b), leaf(n_blocks, b, d)
    if kind == "ties":  # small whole numbers: exact arithmetic, so duplicated rows give exactly equal norms
        x, weight = x.detach().round().requires_grad_(), weight[:1].detach().round().expand(n_blocks, b, d)
        weight, bias = weight.clone().requires_grad_(), torch.zeros(n_blocks, b, dtype=torch.float64).requires_grad_()
    if kind == "equal":
        x = torch.zeros(n, d, dtype=torch.float64).requires_grad_()
        bias = torch.ones(n_blocks, b, dtype=torch.float64).requires_grad_()
    if kind == "mostly negative":
        bias = (bias.detach() - 2).requires_grad_()
    leaves = [x, weight, bias, atoms]
    towards = torch.randn(n, d, dtype=torch.float64, generator=stream)

    pre = x @ weight.reshape(-1, d).T + bias.reshape(-1)
    support = slow.select_topk(pre.detach().reshape(n, n_blocks, b), k, sign)
    z = project(pre.reshape(n, n_blocks, b), sign) * support.to_mask().unsqueeze(-1)
    dense = z.reshape(n, -1) @ atoms.reshape(-1, d)
    want = torch.autograd.grad((dense * towards).sum() + dense.square().sum(), leaves)

    for given_pre in (None, pre.detach()):
        chosen = fast.select_topk(pre.detach(), b, k, sign)
        values = project(fast.values_at(x, weight, bias, chosen, given_pre), sign)
        out = fast.decode(values, chosen, atoms)
        assert_close(out, dense)
        got = torch.autograd.grad((out * towards).sum() + out.square().sum(), leaves)
        for mine, reference in zip(got, want, strict=True):
            assert_close(mine, reference, rtol=1e-10, atol=1e-12)


def test_gradcheck():
    support = Support.from_mask(torch.tensor([[True, False, True], [False, False, False], [True, True, True]]))
    stream = generator(0, "gradcheck")
    values = torch.randn(5, 2, dtype=torch.float64, generator=stream).requires_grad_()
    atoms = torch.randn(3, 2, 4, dtype=torch.float64, generator=stream).requires_grad_()
    x = torch.randn(3, 4, dtype=torch.float64, generator=stream).requires_grad_()
    bias = torch.randn(3, 2, dtype=torch.float64, generator=stream).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, a: fast.decode(v, support, a), (values, atoms))
    assert torch.autograd.gradcheck(lambda r, w, c: fast.values_at(r, w, c, support), (x, atoms, bias))


def test_slow_twin_is_the_fallback_for_other_dtypes():
    support = Support.from_mask(torch.tensor([[True, False], [True, True]]))
    values, atoms = torch.ones(3, 1, dtype=torch.bfloat16), torch.ones(2, 1, 3, dtype=torch.bfloat16)
    assert not fast.available(atoms)
    assert_close(fast.decode(values, support, atoms), slow.decode(values, support, atoms))


def test_results_do_not_depend_on_threads():
    pre = torch.randn(300, 512, generator=generator(1))
    atoms, rows = torch.randn(256, 2, 33, generator=generator(2)), torch.randn(300, 33, generator=generator(3))
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            support = fast.select_topk(pre, 2, 9, "free")
            values = fast.gather(pre, support, 2)
            outputs = fast._decode(values, support, atoms), fast._outer(values, support, rows)
            results.append((support.indices, *outputs))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert_close(one, two, rtol=0, atol=0)


def test_norms_of_both_cones():
    pre = torch.tensor([[[3.0, -4.0]], [[-3.0, -4.0]]])
    assert_close(block_norms(pre, "free"), torch.tensor([[5.0], [5.0]]))
    assert_close(block_norms(pre, "nonneg"), torch.tensor([[3.0], [0.0]]))


def test_counting_sort_equals_the_stable_sort():
    mask = torch.rand(50, 31, generator=generator(9)) < 0.2
    by_counting, by_sorting = Support.from_mask(mask), Support.from_mask(mask)
    for mine, reference in zip(fast._by_block(by_counting), by_sorting.by_block, strict=True):
        assert_close(mine, reference, rtol=0, atol=0)


def test_loops_compile_where_no_folder_can_be_written():
    # numba looks for a folder to keep compiled code in: none will do
    program = """
import numpy as np
from numba.core.caching import CacheImpl

CacheImpl._locator_classes = []
from monoseme.core.kernels.loops import sort_by_block

order = np.empty(3, np.int64)
sort_by_block(np.array([1, 0, 1], np.int32), np.array([0, 1, 3]), order)
assert order.tolist() == [1, 0, 2], order
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
