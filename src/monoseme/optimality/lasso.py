"""Optimal nonnegative codes on a fixed dictionary: min_z ‖x - b - zW‖² + 2λ Σ z, z ≥ 0, row by row, with a duality gap.

Coordinate descent on a working set of latents, z_k ← (z_k + ⟨w_k, r⟩ - λ)₊; latents that the residual asks for
(⟨w_k, r⟩ > λ) join, until none does. The dual point θ = r · min(1, λ / max_k ⟨w_k, r⟩) bounds the optimum from below by
‖x - b‖² - ‖x - b - θ‖²; what is left between is the gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32, Int64

from monoseme.optimality.latents import Latents
from monoseme.optimality.wide import check_lam

__all__ = ["Resolved", "resolve", "resolve_rows"]

CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Resolved:
    """Codes compressed by rows, and the duality gap of each row, units of ‖x‖² (0 is optimal)."""

    indptr: Int64[np.ndarray, " rows_plus_one"]
    indices: Int32[np.ndarray, " nnz"]
    values: Float64[np.ndarray, " nnz"]
    gap: Float64[np.ndarray, " n"]


def resolve(
    x: Float64[np.ndarray, "n d"],
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
    tol: float = 1e-8,
    sweeps: int = 500,
    rounds: int = 50,
) -> Resolved:
    """Solve every row until its gap is at most tol · ‖x - b‖², or the sweeps end; the gap says which."""
    lam, k = check_lam(lam), len(atoms)
    parts = [np.ascontiguousarray(x[i : i + CHUNK] - bias) for i in range(0, len(x), CHUNK)]
    gram = atoms @ atoms.T if k * k <= 1 << 26 else np.zeros((0, 0))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda part: _solve(part, atoms, gram, lam, tol, sweeps, rounds), parts))
    if not done:
        return Resolved(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    rows, latent, value, gap = (np.concatenate(field) for field in zip(*done, strict=True))
    indptr = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    return Resolved(indptr, latent, value, gap)


def _solve(part, atoms, gram, lam, tol, sweeps, rounds):
    from monoseme.optimality import loops

    k = len(atoms)
    z, r = np.zeros((len(part), k)), part.copy()
    for _ in range(rounds):
        wanted = r @ atoms.T
        gap = _gap(part, r, z, wanted, lam)
        open_ = np.flatnonzero(gap > tol * np.maximum(np.square(part).sum(1), 1e-300))
        if not len(open_):
            break
        loops.coordinate_descent(open_, atoms, gram, lam, sweeps, tol, z, r, wanted)
        r[open_] = part[open_] - z[open_] @ atoms
    gap = _gap(part, r, z, r @ atoms.T, lam)
    row, latent = np.nonzero(z)
    return np.bincount(row, minlength=len(part)), latent.astype(np.int32), z[row, latent], gap


def _gap(part, r, z, wanted, lam):
    high = np.maximum(wanted.max(1), 0.0)
    theta = r * np.where(high > lam, lam / np.maximum(high, 1e-300), 1.0)[:, None]
    dual = np.square(part).sum(1) - np.square(part - theta).sum(1)
    return np.square(r).sum(1) + 2 * lam * z.sum(1) - dual


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
