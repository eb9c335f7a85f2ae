"""The fast path: the same three operations as `slow`, by the compiled loops, with gradients written out.

Only the entries of the support are touched: with k of G blocks active, decoding and every weight gradient cost k/G of
the dense product. What remains dense is the encoder product that finds the support.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from monoseme.core.cones import Sign
from monoseme.core.kernels import slow
from monoseme.core.support import Support

__all__ = ["available", "decode", "gather", "select_topk", "values_at"]

_LOCK = threading.Lock()  # numba's fallback threading layer must not be entered by two threads at once


def available(tensor: Tensor) -> bool:
    """Whether the loops can run on this tensor: CPU, single or double precision."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def _run(name: str, *arguments: Any) -> None:
    from monoseme.core.kernels import loops  # compiled on first use, then cached on disk

    plain = [a.detach().contiguous().numpy() if isinstance(a, Tensor) else a for a in arguments]
    with _LOCK:
        _match_threads(loops)
        getattr(loops, name)(*plain)


def _match_threads(loops: ModuleType) -> None:
    """Use as many threads as torch does, so that one setting governs both."""
    import numba

    most = numba.config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue, reportPrivateImportUsage]
    wanted = min(torch.get_num_threads(), most)
    if numba.get_num_threads() != wanted:
        numba.set_num_threads(wanted)


def select_topk(pre: Float[Tensor, "n Gb"], block_size: int, k: int, sign: Sign) -> Support:
    """Support of the k blocks of largest projected norm; see `slow.select_topk`."""
    n, width = pre.shape
    n_blocks = width // block_size
    if not available(pre):
        return slow.select_topk(pre.reshape(n, n_blocks, block_size), k, sign)
    padded = torch.empty(n, k, dtype=torch.int32)
    counts = torch.empty(n, dtype=torch.int64)
    _run("select", pre, block_size, sign == "nonneg", k, padded, counts)
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
    _run("gather", pre, support.indptr, support.indices, values)
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
    _run("decode", values, support.indptr, support.indices, atoms, out)
    return out


def _dots(rows: Tensor, support: Support, atoms: Tensor) -> Tensor:
    out = atoms.new_empty(len(support.indices), atoms.shape[1])
    _run("values_grad", rows, support.indptr, support.indices, atoms, out)
    return out


def _outer(values: Tensor, support: Support, rows: Tensor) -> Tensor:
    pointer, order = support.by_block
    out = rows.new_empty(support.n_blocks, values.shape[1], rows.shape[1])
    _run("outer", values, support.rows, pointer, order, rows, out)
    return out


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
