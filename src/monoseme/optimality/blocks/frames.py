"""`Blocks`: a dictionary of blocks and its codes, in the gauge in which the theory speaks of them.

    x_i  ≈  Σ_g z_ig D_g + b,     D_g D_gᵀ = I,     loss  E‖x - x̂‖² + 2λ E Σ_g ‖z_g‖

Codes are signed. The loss depends on the contributions c_g = z_g D_g only, and ‖c_g‖ = ‖z_g‖ for a frame, so blocks
that are not frames are brought there by their polar factor, D = S Q: codes become z S, contributions stay (ours).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int32, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.rows import RowSource
from monoseme.optimality.reading import as_code, as_matrix

__all__ = ["Blocks", "batches", "blocks", "polar"]

PRODUCTS = 1 << 23  # numbers of rows × frame directions held at once: 64 MB


@dataclass(frozen=True, eq=False)
class Blocks:
    """Signed codes of n rows over G frames of b directions, compressed by rows.

    Attributes
    ----------
    frames
        (G, b, d), orthonormal rows in every block; a block of lower rank is a frame of its span, in b coordinates.
    bias
        (d,), raw units.
    indptr, indices, values
        Row i owns the entries ``indptr[i]:indptr[i + 1]``; blocks ascend inside a row, no value (nnz, b) is all zero.
    notes
        What was changed on the way here, a sentence each.
    """

    frames: Float64[np.ndarray, "G b d"]
    bias: Float64[np.ndarray, " d"]
    indptr: Int64[np.ndarray, " rows_plus_one"]
    indices: Int32[np.ndarray, " nnz"]
    values: Float64[np.ndarray, "nnz b"]
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.indptr) - 1

    @property
    def n_blocks(self) -> int:
        """G."""
        return len(self.frames)

    @property
    def size(self) -> int:
        """Directions in a block, b."""
        return self.frames.shape[1]

    @property
    def directions(self) -> Float64[np.ndarray, "Gb d"]:
        """Rows of all frames under one another."""
        return self.frames.reshape(-1, self.frames.shape[2])

    @cached_property
    def rows(self) -> Int64[np.ndarray, " nnz"]:
        """The row of every entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    @cached_property
    def norms(self) -> Float64[np.ndarray, " nnz"]:
        """‖z_g‖ of every entry."""
        return np.sqrt(np.einsum("eb,eb->e", self.values, self.values))

    @cached_property
    def starts(self) -> Int64[np.ndarray, " G_plus_one"]:
        """Block g owns ``order[starts[g]:starts[g + 1]]``."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.indices, minlength=self.n_blocks))]).astype(np.int64)

    @cached_property
    def order(self) -> Int64[np.ndarray, " nnz"]:
        """Entries sorted by block, rows ascending inside."""
        return np.argsort(self.indices, kind="stable")

    @cached_property
    def moment(self) -> Float64[np.ndarray, "G b b"]:
        """Σ_g = E[z_gᵀ z_g / ‖z_g‖]; its trace is m_g = E‖z_g‖."""
        out = np.zeros((self.n_blocks, self.size, self.size))
        for g in range(self.n_blocks):
            entries = self.of(g)
            z = self.values[entries]
            out[g] = (z / self.norms[entries, None]).T @ z
        return out / max(self.n_rows, 1)

    def of(self, block: int) -> Int64[np.ndarray, " m"]:
        """Entries of one block."""
        return self.order[self.starts[block] : self.starts[block + 1]]

    def residual(self, x: Float64[np.ndarray, "n d"], start: int = 0) -> Float64[np.ndarray, "n d"]:
        """R = x - b - Σ z_g D_g for the rows from `start` on."""
        from monoseme.core.kernels import loops

        out, part = np.empty_like(x), self.indptr[start : start + len(x) + 1]
        loops.decode(0, len(x), self.values, part, self.indices, self.frames, out)
        return x - self.bias - out

    def to_dense(self) -> Float64[np.ndarray, "n G b"]:
        """Codes with zeros written out; for small problems."""
        dense = np.zeros((self.n_rows, self.n_blocks, self.size))
        dense[self.rows, self.indices] = self.values
        return dense


def polar(
    atoms: Float64[np.ndarray, "G b d"],
) -> tuple[Float64[np.ndarray, "G b d"], Float64[np.ndarray, "G b b"], Int64[np.ndarray, " G"]]:
    """Frames Q and stretches S with S Q = D, and the rank of every block.

    Q is the frame nearest to D. Where D has a rank below b, Q has that rank too: Q Qᵀ is a projection, S stays inside
    it, and every bound of this room holds as it stands.
    """
    left, stretch, right = np.linalg.svd(atoms, full_matrices=False)
    rank = (stretch > 1e-12 * np.maximum(stretch[:, :1], 1e-300)).sum(1)
    stretch = np.where(np.arange(stretch.shape[1]) < rank[:, None], stretch, 0.0)
    frames = (left * (stretch > 0)[:, None, :]) @ right
    return frames, (left * stretch[:, None, :]) @ left.transpose(0, 2, 1), rank


def blocks(
    frames: np.ndarray | Tensor,
    bias: np.ndarray | Tensor | None,
    code: Code | np.ndarray | Tensor,
    n: int | None = None,
) -> Blocks:
    """Bring a dictionary of blocks to `Blocks`.

    Parameters
    ----------
    frames
        (G, b, d) floating point, b ≤ d. Blocks that are no frames to 1e-6 are made so, with a note.
    bias
        (d,); ``None`` for zero.
    code
        `Code`, or dense (n, G, b). Entries of norm zero are dropped: a block is on where it contributes.
    n
        Rows there must be; as many as `code` has when left out.
    """
    atoms, notes = _atoms(frames), []
    n_blocks, size, d = atoms.shape
    offset = np.zeros(d) if bias is None else as_matrix(_one_row(bias), "bias", d)[0]
    rows = (code.n_rows if isinstance(code, Code) else len(code)) if n is None else n
    given = as_code(code, rows, n_blocks, size)
    indptr, indices = given.indptr.numpy().astype(np.int64), given.indices.numpy().astype(np.int32)
    values = given.values.double().numpy()
    gram = atoms @ atoms.transpose(0, 2, 1)
    off = np.abs(gram - np.eye(size)).max((1, 2)) > 1e-6
    if off.any():
        turned, stretch, rank = polar(atoms[off])
        place = np.cumsum(off) - 1
        moved = off[indices]
        values = values.copy()
        values[moved] = np.einsum("eb,ebc->ec", values[moved], stretch[place[indices[moved]]])
        atoms = atoms.copy()
        atoms[off] = turned
        notes.append(_said(int(off.sum()), n_blocks, int((rank < size).sum()), size))
    live = (values != 0).any(1)
    if not live.all():
        kept = np.repeat(np.arange(rows), np.diff(indptr))[live]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(kept, minlength=rows))]).astype(np.int64)
        indices, values = indices[live], values[live]
    return Blocks(atoms, offset, indptr, indices, np.ascontiguousarray(values), tuple(notes))


def batches(
    rows: np.ndarray | Tensor | RowSource, n_directions: int
) -> Iterator[tuple[int, Float64[np.ndarray, "n d"]]]:
    """Yield all rows in order, each batch with the number of its first row; products with frames fit in memory."""
    size = max(16, min(4096, PRODUCTS // max(n_directions, 1)))
    if isinstance(rows, RowSource):
        start = 0
        for batch in rows.in_order(size):
            x = as_matrix(batch.x, "rows")
            yield start, x
            start += len(x)
        return
    whole = as_matrix(rows, "rows")
    for start in range(0, len(whole), size):
        yield start, whole[start : start + size]


def _atoms(frames: np.ndarray | Tensor) -> Float64[np.ndarray, "G b d"]:
    array = frames.detach().cpu().numpy() if isinstance(frames, Tensor) else frames
    if array.dtype.kind != "f":
        raise refuse("frames", "hold floating-point numbers", array.dtype, "Convert them with .astype('float64').")
    if array.ndim != 3 or 0 in array.shape or array.shape[1] > array.shape[2]:
        fix = "Scalar features are blocks of one direction: atoms[:, None]."
        raise refuse("frames", "be (G, b, d) with b at most d", array.shape, fix)
    array = np.ascontiguousarray(array, np.float64)
    finite = np.isfinite(array).all((1, 2))
    if not finite.all():
        where = f"NaN or infinity in block {int(np.argmin(finite))}"
        raise refuse("frames", "be finite", where, "Drop the block, or find what made it.")
    return array


def _one_row(bias: np.ndarray | Tensor) -> np.ndarray | Tensor:
    if bias.ndim != 1:
        raise refuse("bias", "be one vector (d,)", tuple(bias.shape), "It is the reconstruction of an empty code.")
    return bias[None]


def _said(off: int, n_blocks: int, short: int, size: int) -> str:
    text = (
        f"{off:,} of {n_blocks:,} blocks were not orthonormal: they were replaced by their polar factors, and "
        "their codes with them; contributions are as they were"
    )
    if short:
        text += f". {short:,} of them had a rank below {size}: the directions they lack stay empty"
    return text
