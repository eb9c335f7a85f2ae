"""Optimal codes on fixed frames: min_z ‖x - b - Σ z_g D_g‖² + 2λ Σ ‖z_g‖, row by row, with a duality gap (group lasso).

Block coordinate descent on a working set, z_g ← (1 - λ/‖y‖)₊ y with y = (r + z_g D_g) D_gᵀ, the exact minimum over one
block. Blocks that the residual asks for (‖r D_gᵀ‖ > λ) join, until none does.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.rows import RowSource
from monoseme.optimality.blocks.conditions import code_gap
from monoseme.optimality.blocks.frames import Blocks, batches
from monoseme.optimality.blocks.frames import blocks as read
from monoseme.optimality.wide import check_lam

__all__ = ["resolve"]


def resolve(
    rows: np.ndarray | Tensor | RowSource,
    frames: np.ndarray | Tensor,
    bias: np.ndarray | Tensor | None,
    lam: float,
    tol: float = 1e-8,
    sweeps: int = 200,
    rounds: int = 50,
) -> tuple[Blocks, Float64[np.ndarray, " n"]]:
    """Solve every row until its gap is at most tol · ‖x - b‖², or the rounds end; the gap says which.

    Returns
    -------
    blocks, gap
        Frames with the best signed codes, and for each row how far they are from the minimum at most, units of ‖x‖².
        Blocks that are no frames are replaced by their polar factors first, with a note: the penalty is ‖z_g D_g‖.
    """
    lam = check_lam(lam)
    empty = np.zeros((0, *np.shape(frames)[:2]))
    on = read(frames, bias, empty)
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        done = []
        for _, x in batches(rows, len(on.directions)):
            parts = np.array_split(x, min(threads, len(x)))
            done += pool.map(lambda part: _solve(part - on.bias, on.frames, lam, tol, sweeps, rounds), parts)
    counts, indices, values, gap = (np.concatenate(field) for field in zip(*done, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Blocks(on.frames, on.bias, indptr, indices, values, on.notes), gap


def _solve(x: np.ndarray, frames: np.ndarray, lam: float, tol: float, sweeps: int, rounds: int):
    from monoseme.optimality.blocks import loops

    n_blocks, b, d = frames.shape
    directions = frames.reshape(-1, d)
    z, r = np.zeros((len(x), n_blocks, b)), x.copy()
    allowed = tol * np.maximum(np.square(x).sum(1), 1e-300)
    gap = allowed
    for turn in range(rounds + 1):
        wanted = r @ directions.T
        largest = np.sqrt(np.square(wanted).reshape(z.shape).sum(2)).max(1)
        gap = code_gap(x, r, np.sqrt(np.square(z).sum(2)).sum(1), largest, lam)
        open_ = np.flatnonzero(gap > allowed)
        if turn == rounds or not len(open_):
            break
        loops.descend(open_, directions, b, lam, sweeps, tol, z, r, wanted)
        r[open_] = x[open_] - z[open_].reshape(len(open_), -1) @ directions
    row, g = np.nonzero((z != 0).any(2))
    return np.bincount(row, minlength=len(x)), g.astype(np.int32), z[row, g], np.maximum(gap, 0.0)
