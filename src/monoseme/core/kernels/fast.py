"""The fast path: the same three operations as `slow`, by the compiled loops, with gradients written out.

Only the entries of the support are touched: with k of G blocks active, decoding and every weight gradient cost k/G of
the dense product. What remains dense is the encoder product that finds the support.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from monoseme.core.cones import Sign
from monoseme.core.kernels import slow
from monoseme.core.support import Support

__all__ = ["available", "decode", "gather", "select_topk", "values_at"]

SMALL = 200_000  # multiplications below which a second thread costs more than it brings


def available(tensor: Tensor) -> bool:
    """Whether the loops can run on this tensor: CPU, single or double precision."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads, made on first use; a forked process makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="monoseme-kernels")


def _run(name: str, items: int, work: int, *arguments: Any, edges: Sequence[int] | None = None) -> None:
    """Run a loop over `items` rows or blocks, shared among as many threads as torch uses.

    `work` is about how many multiplications it takes; `edges`, where to cut, if equal parts are not equal work.
    """
    from monoseme.core.kernels import loops  # compiled on first use, then cached on disk

    loop = getattr(loops, name)
    plain = [a.detach().contiguous().numpy() if isinstance(a, Tensor) else a for a in arguments]
    threads = torch.get_num_threads()
    if threads == 1 or work < SMALL:
        loop(0, items, *plain)
        return
    cuts = edges or [items * i // threads for i in range(threads + 1)]
    parts = [_pool(os.getpid(), threads).submit(loop, *cut, *plain) for cut in itertools.pairwise(cuts)]
    for part in parts:
        part.result()


def select_topk(pre: Float[Tensor, "n Gb"], block_size: int, k: int, sign: Sign) -> Support:
    """Support of the k blocks of largest projected norm; see `slow.select_topk`."""
    n, width = pre.shape
    n_blocks = width // block_size
    if not available(pre):
        return slow.select_topk(pre.reshape(n, n_blocks, block_size), k, sign)
    padded = torch.empty(n, k, dtype=torch.int32)
    counts = torch.empty(n, dtype=torch.int64)
    _run("select", n, pre.numel(), pre, block_size, sign == "nonneg", k, padded, counts)
    indptr = torch.zeros(n + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    if int(indptr[-1]) == n * k:
        return Support(indptr, padded.reshape(-1), n_blocks)
    return Support(indptr, padded[torch.arange(k) < counts[:, None]], n_blocks)


def gather(pre: Float[Tensor, "n Gb"], support: Support, block_size: int) -> Float[Tensor, "nnz b"]:
    """Pre-codes at the support, copied from the dense pre-code; no gradient."""
    if not available(pre):
        return pre.reshape(len(pre), -1, block_size)[support.rows, support.indices.long()]
    values = pre.new_empty(len(support.indices), block_size)
    _run("gather", len(pre), values.numel(), pre, support.indptr, support.indices, values)
    return values


def decode(values: Float[Tensor, "nnz b"], support: Support, atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "n d"]:
    """Σ_g z_g D_g on every row, with gradients for `values` and `atoms`."""
    if not available(atoms):
        return slow.decode(values, support, atoms)
    return _Decode.apply(values, support, atoms)  # pyright: ignore[reportReturnType]


def values_at(
    x: Float[Tensor, "n d"],
    weight: Float[Tensor, "G b d"],
    bias: Float[Tensor, "G b"] | None,
    support: Support,
    pre: Float[Tensor, "n Gb"] | None = None,
) -> Float[Tensor, "nnz b"]:
    """Pre-codes at the support, with gradients for `x`, `weight` and `bias`.

    `pre`, the dense pre-code that found the support, saves computing the values again.
    """
    if not available(weight):
        return slow.values_at(x, weight, bias, support)
    return _ValuesAt.apply(x, weight, bias, support, pre)  # pyright: ignore[reportReturnType]


def _decode(values: Tensor, support: Support, atoms: Tensor) -> Tensor:
    out = atoms.new_empty(support.n_rows, atoms.shape[-1])
    _run("decode", support.n_rows, values.numel() * out.shape[1], values, support.indptr, support.indices, atoms, out)
    return out


def _dots(rows: Tensor, support: Support, atoms: Tensor) -> Tensor:
    out = atoms.new_empty(len(support.indices), atoms.shape[1])
    _run("values_grad", support.n_rows, out.numel() * rows.shape[1], rows, support.indptr, support.indices, atoms, out)
    return out


def _outer(values: Tensor, support: Support, rows: Tensor) -> Tensor:
    pointer, order = _by_block(support)
    out = rows.new_empty(support.n_blocks, values.shape[1], rows.shape[1])
    # cut where the entries halve, not where the blocks do: some blocks fire far more often
    threads = torch.get_num_threads()
    even = torch.arange(1, threads) * len(order) // threads
    edges = [0, *torch.searchsorted(pointer, even).tolist(), support.n_blocks]
    work = values.numel() * rows.shape[1]
    _run("outer", support.n_blocks, work, values, support.rows, pointer, order, rows, out, edges=edges)
    return out


def _by_block(support: Support) -> tuple[Tensor, Tensor]:
    """`Support.by_block` by counting, five times faster than by sorting; kept where the property keeps it."""
    if "by_block" not in support.__dict__:
        from monoseme.core.kernels import loops

        pointer = torch.zeros(support.n_blocks + 1, dtype=torch.int64)
        torch.cumsum(support.counts(), 0, out=pointer[1:])
        order = torch.empty(len(support.indices), dtype=torch.int64)
        loops.sort_by_block(support.indices.numpy(), pointer.numpy(), order.numpy())
        support.__dict__["by_block"] = pointer, order
    return support.by_block


class _Decode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, support: Support, atoms: Tensor) -> Tensor:
        ctx.save_for_backward(values, atoms)
        ctx.support = support
        return _decode(values, support, atoms)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        values, atoms = ctx.saved_tensors
        for_values = _dots(grad, ctx.support, atoms) if ctx.needs_input_grad[0] else None
        for_atoms = _outer(values, ctx.support, grad) if ctx.needs_input_grad[2] else None
        return for_values, None, for_atoms


class _ValuesAt(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, support: Support, pre: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.support, ctx.has_bias = support, bias is not None
        if pre is not None:
            return gather(pre, support, weight.shape[1])
        values = _dots(x, support, weight)
        return values if bias is None else values + bias[support.indices.long()]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        x, weight = ctx.saved_tensors
        support = ctx.support
        for_x = _decode(grad, support, weight) if ctx.needs_input_grad[0] else None
        for_weight = _outer(grad, support, x) if ctx.needs_input_grad[1] else None
        for_bias = None
        if ctx.has_bias and ctx.needs_input_grad[2]:
            for_bias = grad.new_zeros(support.n_blocks, grad.shape[1]).index_add(0, support.indices.long(), grad)
        return for_x, for_weight, for_bias, None, None
