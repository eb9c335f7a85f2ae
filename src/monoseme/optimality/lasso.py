"""Codes re-solved on a fixed dictionary: the nonnegative lasso, row by row, each with a duality gap.

For y = x - b and unit atoms w_k,

    min_{z ≥ 0} P(z) = ‖y - zW‖² + 2λ Σ_k z_k

The dual is max D(θ) = ‖y‖² - ‖y - θ‖² over {θ : ⟨w_k, θ⟩ ≤ λ for all k}. With r = y - zW, the point
θ = r · min(1, λ / max_k ⟨w_k, r⟩) is allowed, so P(z) - D(θ) ≥ 0 bounds what any other codes could still win on that
row. Condition K1 holds exactly where it is 0. (Standard duality; what is solved is condition K1 of arXiv 2606.02385.)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int32, Int64

from monoseme.core.errors import refuse
from monoseme.core.rows import RowSource
from monoseme.optimality.latents import Latents
from monoseme.optimality.wide import check_lam

__all__ = ["Resolved", "resolve", "resolve_batches", "resolve_rows"]

TABLE = 2**24  # entries of the Gram matrix up to which it is computed once (128 MiB)
BLOCK = 2**22  # rows · atoms whose scalar products are held at a time (32 MiB)
SMALL = 200_000  # scalar products below which a second thread costs more than it brings


@dataclass(frozen=True, eq=False)
class Resolved:
    """Optimal codes of some rows on a fixed dictionary, compressed by rows.

    Attributes
    ----------
    indptr, indices, values
        Row i owns the entries ``indptr[i]:indptr[i + 1]``; indices ascend, values are positive, in the unit of x.
    gap
        Proven bound, row by row, on P(z) minus its minimum; units of ‖x‖². Lower is better.
    """

    indptr: Int64[np.ndarray, " rows_plus_one"]
    indices: Int32[np.ndarray, " nnz"]
    values: Float64[np.ndarray, " nnz"]
    gap: Float64[np.ndarray, " n"]


class _Work:
    """Working sets of a block of rows: `count[i]` atoms each, their codes, and how far the row is."""

    def __init__(self, y: np.ndarray, start: Any, n_atoms: int) -> None:
        (n, d), owned = y.shape, np.diff(start.indptr)
        # an optimal support needs no more than d atoms; the rest is room for those that object on the way
        width = min(n_atoms, max(2 * d + 64, int(owned.max(initial=0)) + 64))
        self.members, self.z = np.zeros((n, width), np.int32), np.zeros((n, width))
        self.count = owned.astype(np.int64)
        within = np.arange(width) < self.count[:, None]
        self.members[within], self.z[within] = start.indices, start.data
        self.state, self.sweeps = np.zeros(n, np.int8), np.zeros(n, np.int64)
        self.scale, self.gap = np.einsum("nd,nd->n", y, y), np.zeros(n)

    def codes(self) -> Resolved:
        """The positive codes, compressed, atoms ascending, and the gaps."""
        on = (np.arange(self.z.shape[1]) < self.count[:, None]) & (self.z > 0)
        row, _ = np.nonzero(on)
        order = np.lexsort((self.members[on], row))
        indptr = np.concatenate([[0], np.cumsum(on.sum(1))]).astype(np.int64)
        return Resolved(indptr, self.members[on][order], self.z[on][order], self.gap)


def resolve(
    x: Float[np.ndarray, "n _"],
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
    start: Any = None,
    tol: float = 1e-8,
    max_sweeps: int = 10_000,
) -> Resolved:
    """Solve the nonnegative lasso on every row.

    Each row keeps a working set of atoms. On it, coordinate descent and Newton steps on the support run in turn; then
    all atoms are correlated with the residual, the strongest of those above λ join, and those that the gap proves to
    be off leave.

    Parameters
    ----------
    x
        Rows, (n, d); computed in float64.
    atoms, bias
        (K, d) of norm 1 (or 0: never used), and (d,).
    lam
        λ > 0, in the unit of x.
    start
        Nonnegative codes of these rows to begin from, for instance an encoder's; scipy sparse, (n, K).
    tol
        A row is done when its gap is at most tol · ‖x - b‖².
    max_sweeps
        Most sweeps of coordinate descent on a row. A row left before its time keeps its honest gap.

    Raises
    ------
    UserError
        If λ ≤ 0, atoms are not of norm 1, x or the start has another shape, or x is not finite.
    """
    from scipy.sparse import csr_array

    lam, (n, k) = check_lam(lam), (len(x), len(atoms))
    if x.shape[1] != atoms.shape[1]:
        raise refuse("x", f"have the shape (n, {atoms.shape[1]}) of the atoms", x.shape, "One row each.")
    if not np.isfinite(x).all():
        raise refuse("x", "be finite", "NaN or infinity", "Drop the row, or find what made it.")
    _check_atoms(atoms)
    begin: Any = csr_array((n, k)) if start is None else csr_array(start, dtype=np.float64)
    if begin.shape != (n, k):
        raise refuse("start", f"have the shape {(n, k)}", begin.shape, "Bring the codes of these rows on these atoms.")
    if begin.nnz and not (np.isfinite(begin.data).all() and begin.data.min() >= 0):
        raise refuse("start", "hold nonnegative numbers", float(begin.data.min()), "Clip the codes at 0.")
    # the table is worth it where there is more to look up than to compute
    gram = atoms @ atoms.T if k * k <= TABLE and k <= 4 * n else np.zeros((0, 0))
    rows = max(BLOCK // k, 16)
    y = np.asarray(x, np.float64) - bias
    parts = [_block(y[i : i + rows], begin[i : i + rows], atoms, gram, lam, tol, max_sweeps) for i in range(0, n, rows)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(p.indptr) for p in parts)])
    return Resolved(
        np.cumsum(lengths),
        np.concatenate([np.zeros(0, np.int32), *(p.indices for p in parts)]),
        np.concatenate([np.zeros(0), *(p.values for p in parts)]),
        np.concatenate([np.zeros(0), *(p.gap for p in parts)]),
    )


def _check_atoms(atoms: np.ndarray) -> None:
    norms = np.linalg.norm(atoms, axis=1)
    wrong = ~(np.abs(norms - 1) <= 1e-6) & (norms != 0)
    if wrong.any():
        got = f"norm {norms[wrong][0]:.4g} of atom {int(np.argmax(wrong))}"
        raise refuse("atoms", "have norm 1", got, "Divide it by its norm, and multiply its codes by it.")


def _in_threads(loop: Callable[..., Any], items: int, work: int, *arguments: Any) -> None:
    """Call ``loop(low, high, *arguments)`` on as many stretches of the items as there are processors."""
    many = (os.cpu_count() or 1) if work >= SMALL else 1
    edges = [items * i // many for i in range(many + 1)]
    if many == 1:
        loop(0, items, *arguments)
        return
    with ThreadPoolExecutor(many) as pool:
        for part in [pool.submit(loop, low, high, *arguments) for low, high in itertools.pairwise(edges)]:
            part.result()


def _block(
    y: np.ndarray, start: Any, atoms: np.ndarray, gram: np.ndarray, lam: float, tol: float, most: int
) -> Resolved:
    from monoseme.optimality import lasso_loops as loops

    work, r = _Work(y, start, len(atoms)), y - start @ atoms
    alive, last = np.arange(len(y)), np.zeros(len(y), bool)
    while len(alive):
        corr = r[alive] @ atoms.T
        sets = (work.members, work.count, work.z, work.state)
        _in_threads(loops.judge, len(alive), corr.size, alive, corr, r, work.scale, lam, tol, *sets, work.gap)
        go = (work.state[alive] != 2) & ~last[alive]
        alive, corr = alive[go], corr[go]
        given = (alive, corr, atoms, gram, y, r, work.scale, lam, *sets, work.sweeps, most)
        _in_threads(loops.solve, len(alive), corr.size, *given)
        last[alive] = work.state[alive] == 3
    return work.codes()


def resolve_batches(
    source: RowSource,
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
    start: Any = None,
    size: int = 4096,
    tol: float = 1e-8,
) -> Iterator[tuple[np.ndarray, Resolved]]:
    """Yield (rows, codes) for all rows of a source in order, `size` at a time; memory does not grow with their number.

    `start`, if given, holds codes of all rows in that order, scipy CSR. For the other arguments see `resolve`.
    """
    done = 0
    for batch in source.in_order(size):
        x = batch.x.detach().cpu().double().numpy()
        yield x, resolve(x, atoms, bias, lam, None if start is None else start[done : done + len(x)], tol)
        done += len(x)


def resolve_rows(
    rows: Callable[[], Iterator[Float64[np.ndarray, "n d"]]],
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
    learned_bias: bool = True,
) -> Latents:
    """Optimal codes of rows that come in batches, as `Latents`; the largest gap left is in the notes."""
    from monoseme.optimality.reading import unit

    notes: list[str] = []
    w, _ = unit(np.asarray(atoms, np.float64), notes)
    counts, indices, values, worst = [], [], [], 0.0
    for x in rows():
        found = resolve(x, w, bias, lam)
        counts.append(np.diff(found.indptr))
        indices.append(found.indices)
        values.append(found.values)
        size = np.maximum(np.square(x - bias).sum(1), 1e-300)
        worst = max(worst, float((found.gap / size).max(initial=0.0)))
    notes.append(f"codes were solved on the decoder at lam {lam:.4g}; largest duality gap {worst:.1e} of ‖x - b‖²")
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    k = len(w)
    return Latents(
        w,
        bias,
        indptr,
        np.concatenate(indices),
        np.concatenate(values),
        np.arange(k),
        np.ones(k, np.int64),
        learned_bias,
        tuple(notes),
    )
