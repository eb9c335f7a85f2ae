"""From what a user has (arrays, scipy matrices, `Code`) to `Latents`. What is changed on the way is noted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.optimality.latents import Latents

__all__ = [
    "LARGEST",
    "as_bias",
    "as_code",
    "as_matrix",
    "check_lam",
    "check_number",
    "check_size",
    "latents",
    "rows_of",
]

# of a number in rows, atoms, codes: with it squares of products, and their sums over 10^20 terms, stay finite
LARGEST = 1e70
SMALLER = "Divide rows, codes, bias and lam by one number."


def as_matrix(value: object, argument: str, width: int | None = None) -> Float64[np.ndarray, "n d"]:
    """Return a floating-point matrix in float64; integers, other shapes, NaN and infinity are refused in one line."""
    array = _plain(value)
    if not isinstance(array, np.ndarray):
        raise refuse(argument, "be a tensor or an array", type(value).__name__, "Convert it with np.asarray.")
    if array.dtype.kind != "f":
        raise refuse(argument, "hold floating-point numbers", array.dtype, "Convert it with .astype('float64').")
    if array.ndim != 2 or 0 in array.shape or (width is not None and array.shape[1] != width):
        wanted = "(n, d)" if width is None else f"(n, {width})"
        raise refuse(argument, f"have the shape {wanted}, none of them 0", array.shape, "One row each.")
    array = np.asarray(array, np.float64)
    finite = np.isfinite(array).all(1)
    if not finite.all():
        fix = "Drop it, or find what made it."
        raise refuse(argument, "be finite", f"NaN or infinity in row {int(np.argmin(finite))}", fix)
    check_size(array, argument)
    return array


def check_size(array: np.ndarray, argument: str, first: int = 0) -> None:
    """Refuse finite numbers of which a square or a sum of squares would not be; `first` is the number of row 0."""
    largest = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
    if largest > LARGEST:
        row = first + int(np.abs(array).reshape(len(array), -1).max(1).argmax())
        got = f"{largest:.3g} in row {row}"
        raise refuse(
            argument, f"hold numbers of at most {LARGEST:.0e}, so that sums of squares are finite", got, SMALLER
        )


def _plain(value: object) -> object:
    """A tensor as an array NumPy knows: dense, on the CPU, half precision widened; anything else as it came."""
    if not isinstance(value, Tensor):
        return value
    dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
    return (dense.double() if dense.is_floating_point() else dense).cpu().numpy()


def check_lam(lam: float) -> float:
    """λ as a float; it must be a positive finite number, of which the square is one too."""
    fix = "It weighs the penalty 2·lam·‖z‖₁, in units of x."
    if isinstance(lam, bool) or not isinstance(lam, Real) or not 0 < lam < math.inf:
        raise refuse("lam", "be positive and finite", repr(lam), fix)
    if lam > LARGEST:
        raise refuse("lam", f"be at most {LARGEST:.0e}, so that its square is finite", repr(lam), fix)
    return float(lam)


def check_number(value: float, argument: str, low: float, high: float, fix: str) -> float:
    """`value` as a float between both ends, the infinite one left out."""
    if isinstance(value, bool) or not isinstance(value, Real) or not (low <= value <= high and value < math.inf):
        ends = f"be a number of at least {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
        raise refuse(argument, ends, repr(value), fix)
    return float(value)


def as_bias(bias: object, d: int) -> Float64[np.ndarray, " d"]:
    """Return a bias (d,) in float64; zero for ``None``."""
    if bias is None:
        return np.zeros(d)
    array = _plain(bias)
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        raise refuse("bias", "be one floating-point vector (d,)", type(bias).__name__, "Leave it out for zero.")
    return as_matrix(array[None], "bias", d)[0]


def as_code(codes: object, n: int, n_blocks: int, block_size: int = 1) -> Code:
    """Return codes as a `Code` of n rows over the blocks: dense (n, K) or (n, G, b), scipy sparse (n, K), or `Code`."""
    fix = "Codes and atoms of one dictionary have equally many blocks; codes and rows are equally many."
    if isinstance(codes, Code):
        shape, wanted = (codes.n_rows, codes.n_blocks, codes.block_size), (n, n_blocks, block_size)
        if shape != wanted:
            raise refuse("codes", f"be of {wanted} (rows, blocks, block size)", shape, fix)
        code = codes.to("cpu")
    elif hasattr(codes, "tocsr"):
        code = _from_scipy(codes, n, n_blocks, block_size, fix)
    else:
        code = _from_dense(codes, n, n_blocks, block_size, fix)
    if not bool(torch.isfinite(code.values).all()):
        bad = int((~torch.isfinite(code.values).all(1)).nonzero()[0])
        raise refuse("codes", "be finite", f"NaN or infinity in row {int(code.rows[bad])}", "Find what made it.")
    largest = float(code.values.abs().max()) if len(code.values) else 0.0
    if largest > LARGEST:
        raise refuse("codes", f"hold numbers of at most {LARGEST:.0e}", f"{largest:.3g}", SMALLER)
    return code


def rows_of(code: Code, index: Int64[np.ndarray, " m"]) -> Code:
    """Rows of a code by number."""
    counts = code.l0[index]
    indptr = torch.zeros(len(index) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    starts = code.indptr[:-1][index]
    entries = torch.repeat_interleave(starts - indptr[:-1], counts) + torch.arange(int(indptr[-1]))
    return Code(indptr, code.indices[entries], code.values[entries], code.n_blocks)


def _from_scipy(codes: Any, n: int, n_blocks: int, block_size: int, fix: str) -> Code:
    if codes.shape != (n, n_blocks) or block_size != 1:
        raise refuse("codes", f"have the shape {(n, n_blocks)}", codes.shape, fix)
    rows = codes.tocsr().copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    indptr = torch.from_numpy(rows.indptr.astype(np.int64))
    values = torch.from_numpy(rows.data.astype(np.float64)).unsqueeze(1)
    return Code(indptr, torch.from_numpy(rows.indices.astype(np.int32)), values, n_blocks)


def _from_dense(codes: object, n: int, n_blocks: int, block_size: int, fix: str) -> Code:
    array = _plain(codes)
    if not isinstance(array, np.ndarray):
        raise refuse("codes", "be an array, a tensor, a scipy sparse matrix or a Code", type(codes).__name__, fix)
    if array.dtype.kind != "f":
        raise refuse("codes", "hold floating-point numbers", array.dtype, "Convert them with .astype('float64').")
    shapes = [(n, n_blocks, block_size)] + ([(n, n_blocks)] if block_size == 1 else [])
    if array.shape not in shapes:
        raise refuse("codes", f"have the shape {shapes[-1]}", array.shape, fix)
    return Code.from_dense(torch.from_numpy(np.array(array, np.float64).reshape(n, n_blocks, block_size)))


def unit(
    atoms: Float64[np.ndarray, "K d"], notes: list[str]
) -> tuple[Float64[np.ndarray, "K d"], Float64[np.ndarray, " K"]]:
    """Unit atoms and the norms they had; atoms of norm zero stay zero, for they cannot be used."""
    norms = np.linalg.norm(atoms, axis=1)
    off = (np.abs(norms - 1) > 1e-6) & (norms > 0)
    if off.any():
        low, high = norms[off].min(), norms[off].max()
        notes.append(
            f"{int(off.sum()):,} of {len(norms):,} atoms were not of norm 1 ({low:.3g} to {high:.3g}): they were "
            "rescaled, and their codes with them"
        )
    if none := int((norms == 0).sum()):
        are = "atom is" if none == 1 else "atoms are"
        notes.append(f"{none:,} of {len(norms):,} {are} zero: nothing to rescale, and codes on it count as off")
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return atoms * scale[:, None], norms


def latents(
    atoms: Float[np.ndarray, "K d"],
    bias: Float[np.ndarray, " d"] | None,
    code: Code,
    learned_bias: bool = True,
    notes: Sequence[str] = (),
    signed: bool | None = None,
) -> Latents:
    """Bring scalar codes (b = 1) to the one form of the theory.

    Atoms are made unit and codes rescaled, reconstructions stay as they are. When any code is negative, or `signed`,
    every scalar counts as two atoms: latent 2g is +w_g, latent 2g + 1 is -w_g.
    """
    said = list(notes)
    w = as_matrix(atoms, "atoms")
    w, norms = unit(w, said)
    k, d = w.shape
    b = as_bias(bias, d)
    indptr = code.indptr.numpy().astype(np.int64)
    indices, values = code.indices.numpy().astype(np.int32), code.values[:, 0].double().numpy()
    values = values * norms[indices]
    live = values != 0
    if not live.all():
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[live]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(indptr) - 1))]).astype(np.int64)
        indices, values = indices[live], values[live]
    owner, side = np.arange(k), np.ones(k, np.int64)
    if (values < 0).any() if signed is None else signed:
        said.append("codes are signed: a scalar counts as two atoms, latent 2g is +w and 2g + 1 is -w")
        indices = (2 * indices + (values < 0)).astype(np.int32)
        w = np.stack([w, -w], 1).reshape(2 * k, d)
        owner, side = np.repeat(owner, 2), np.tile(np.array([1, -1]), k)
    return Latents(w, b, indptr, indices, np.abs(values), owner, side, learned_bias, tuple(said))
