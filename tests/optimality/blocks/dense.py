"""Slow, obvious twins of the block certificates, with zeros written out, and what makes instances for them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from monoseme.optimality.blocks import Blocks, blocks, resolve
from monoseme.optimality.blocks.frames import polar


def frames_of(r: np.random.Generator, n_blocks: int, size: int, d: int) -> np.ndarray:
    """Random orthonormal frames."""
    return np.linalg.qr(r.standard_normal((n_blocks, d, size)))[0].transpose(0, 2, 1).copy()


def codes_of(r: np.random.Generator, n: int, n_blocks: int, size: int, density: float = 0.4) -> np.ndarray:
    """Random codes (n, G, b)."""
    return r.standard_normal((n, n_blocks, size)) * (r.random((n, n_blocks, 1)) < density)


def loss(x: np.ndarray, frames: np.ndarray, z: np.ndarray, bias: np.ndarray, lam: float) -> float:
    """E‖x - x̂‖² + 2λ E Σ ‖z_g‖."""
    r = x - bias - np.einsum("ngb,gbd->nd", z, frames)
    return float(np.square(r).sum(1).mean() + 2 * lam * np.sqrt(np.square(z).sum(2)).sum(1).mean())


def loss_of(x: np.ndarray, on: Blocks, lam: float) -> float:
    """The same of `Blocks`."""
    return loss(x, on.frames, on.to_dense(), on.bias, lam)


def hat(on: Blocks) -> np.ndarray:
    """Reconstructions."""
    return on.bias + np.einsum("ngb,gbd->nd", on.to_dense(), on.frames)


def stationary(
    x: np.ndarray, n_blocks: int, size: int, lam: float, seed: int = 0, sweeps: int = 3000
) -> tuple[Blocks, np.ndarray]:
    """Sweeps of exact steps in codes, frames (polar factor of Z_gᵀR_g) and bias, from a random start."""
    r = np.random.default_rng(seed)
    frames, bias = frames_of(r, n_blocks, size, x.shape[1]), x.mean(0)
    z = np.zeros((len(x), n_blocks, size))
    for _ in range(sweeps):
        before = frames.copy()
        residual = x - bias - np.einsum("ngb,gbd->nd", z, frames)
        for g in range(n_blocks):
            residual += z[:, g] @ frames[g]
            y = residual @ frames[g].T
            z[:, g] = y * np.maximum(1 - lam / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), lam), 0)
            if z[:, g].any():
                frames[g] = polar((z[:, g].T @ residual)[None])[0][0]
            residual -= z[:, g] @ frames[g]
        shift = residual.mean(0)
        bias = bias + shift
        if max(np.abs(before - frames).max(), np.abs(shift).max()) < 1e-13:
            break
    return resolve(x, frames, bias, lam, tol=1e-13, sweeps=1000)[0], frames


def solved(problem: cp.Problem) -> float:
    """Optimal value by Clarabel."""
    problem.solve(solver=cp.CLARABEL)
    return float(np.asarray(problem.value))


def planted(
    r: np.random.Generator, n: int, n_blocks: int, size: int, d: int, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, frames and codes in which block 0 is a strict child of block 1, near one of its directions."""
    frames, z = frames_of(r, n_blocks, size, d), codes_of(r, n, n_blocks, size)
    parent = np.linalg.norm(z[:, 1], axis=1, keepdims=True)
    z[:, 0] = np.where(parent > 0, z[:, 1] / np.maximum(parent, 1e-300), 0) * (r.random((n, 1)) < 0.6)
    z[:, 0] += 0.2 * r.standard_normal((n, size)) * (z[:, :1, 0] != 0)
    x = np.einsum("ngb,gbd->nd", z, frames) + noise * r.standard_normal((n, d))
    return x, frames, z


def as_blocks(frames: np.ndarray, z: np.ndarray, bias: np.ndarray | None = None) -> Blocks:
    """Dense codes as `Blocks`."""
    return blocks(frames, bias, z)
