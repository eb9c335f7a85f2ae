"""What single changes of a dictionary of blocks would win, the other blocks held as they are.

`merge_gain`     two blocks replaced by one on their joint span (exact), or on any other span
`widen_gains`    one more direction for a block (at least)
`split_gains`    two rotated copies of a block (at least)
`new_block_gain` one more block (exact)

All ours. They hold for any codes, optimal or not. Merging on the joint span never loses: the loss alone always prefers
larger blocks, so compare at equal size, or with a price (`sphere.tie_price`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.seeds import rng
from monoseme.optimality.blocks.frames import Blocks
from monoseme.optimality.wide import huber

__all__ = ["effective_rank", "merge_gain", "merge_gains", "new_block_gain", "split_gains", "widen_gain", "widen_gains"]

Batches = Callable[[], Iterator[tuple[int, Float64[np.ndarray, "n d"]]]]  # first row's number, and rows


def effective_rank(moment: Float64[np.ndarray, "G b b"]) -> Float64[np.ndarray, " G"]:
    """Exponential of the entropy of the spectrum of Σ_g: dimensions that a block uses, 1 to b; 0 for a dead block."""
    value = np.maximum(np.linalg.eigvalsh(moment), 0.0)
    total = value.sum(1, keepdims=True)
    share = np.divide(value, total, out=np.zeros_like(value), where=total > 0)
    entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(1)
    return np.where(total[:, 0] > 0, np.exp(entropy), 0.0)


def merge_gain(
    residual: Float64[np.ndarray, "n d"],
    contributions: Float64[np.ndarray, "n d"],
    penalty: Float64[np.ndarray, " n"],
    span: Float64[np.ndarray, "s d"],
    lam: float,
) -> float:
    """Loss removed by one block on `span` in place of some, exactly: E[‖r‖² + 2λp] - E[‖y(I - UᵀU)‖² + h(‖yUᵀ‖)].

    y = r + their contributions, p the sum of their norms, U `span` (orthonormal rows); the new block's codes are the
    best for it. Negative where the span is too small for what it replaces.
    """
    y = residual + contributions
    inside = np.linalg.norm(y @ span.T, axis=1)
    after = np.square(y).sum(1) - inside**2 + huber(inside, lam)
    return float((np.square(residual).sum(1) + 2 * lam * penalty - after).mean())


def merge_gains(
    batches: Batches, blocks: Blocks, pairs: Int64[np.ndarray, "P 2"], lam: float
) -> Float64[np.ndarray, " P"]:
    """`merge_gain` of pairs of blocks on their joint spans, never negative; one pass over the rows.

    With [D_g; D_h] = L U, r Uᵀ = [r D_gᵀ, r D_hᵀ] L⁻ᵀ and y Uᵀ = r Uᵀ + [z_g, z_h] L.
    """
    b, total = blocks.size, np.zeros(len(pairs))
    joint = blocks.frames[pairs].reshape(len(pairs), 2 * b, -1)
    value, vector = np.linalg.eigh(joint @ joint.transpose(0, 2, 1))
    root = np.sqrt(np.where(value > 1e-10, value, 0.0))  # spans that meet have directions in common
    inverse = np.where(root > 0, 1 / np.where(root > 0, root, 1.0), 0.0)
    for start, x in batches():
        part = slice(int(blocks.indptr[start]), int(blocks.indptr[start + len(x)]))
        z = np.zeros((len(x), blocks.n_blocks, b))
        z[blocks.rows[part] - start, blocks.indices[part]] = blocks.values[part]
        products = (blocks.residual(x, start) @ blocks.directions.T).reshape(z.shape)
        for p, (g, h) in enumerate(pairs.tolist()):
            r_u = np.concatenate([products[:, g], products[:, h]], 1) @ (vector[p] * inverse[p])
            y_u = r_u + np.concatenate([z[:, g], z[:, h]], 1) @ (vector[p] * root[p])
            penalty = np.linalg.norm(z[:, g], axis=1) + np.linalg.norm(z[:, h], axis=1)
            now = np.square(r_u).sum(1) + 2 * lam * penalty
            total[p] += float((now - huber(np.linalg.norm(y_u, axis=1), lam)).sum())
    return total / max(blocks.n_rows, 1)


def widen_gain(
    residual: Float64[np.ndarray, "n d"],
    codes: Float64[np.ndarray, "n b"],
    frame: Float64[np.ndarray, "b d"],
    normal: Float64[np.ndarray, " d"],
    lam: float,
) -> float:
    """Loss removed by n ⟂ D as one more row of a block, its codes solved anew: E[h(s) + ρ² - h(√(s² + ρ²))].

    s = ‖z + r Dᵀ‖, ρ = r·n. Exact where the block's codes are the best for its frame; at least that where they are not.
    """
    s, rho = np.linalg.norm(codes + residual @ frame.T, axis=1), residual @ normal
    return float((huber(s, lam) + rho**2 - huber(np.sqrt(s**2 + rho**2), lam)).mean())


def widen_gains(
    batches: Batches, blocks: Blocks, lam: float, passes: int = 6, seed: int = 0
) -> tuple[Float64[np.ndarray, " G"], Float64[np.ndarray, "G d"]]:
    """Loss that one more direction removes at least, by block, and the direction: the rows are read `passes` times.

    Gain ≥ n E[1_{g on} rᵀr / (1 + λ/‖z_g‖)] nᵀ for every unit n ⟂ D_g; n by power iteration towards the largest
    eigenvalue, so every pass raises a valid bound. 0 iff r = λ u_g D_g wherever g is on. A block with a spare direction
    (one that no code uses) can take n in its place: with a gain above 0 it is no local minimum.
    """
    from monoseme.optimality.blocks import loops

    def normal(v: np.ndarray) -> np.ndarray:
        v = v - np.einsum("gb,gbd->gd", np.einsum("gd,gbd->gb", v, blocks.frames), blocks.frames)
        return _unit(v, np.linalg.norm(v, axis=1))

    g, d = blocks.n_blocks, blocks.frames.shape[2]
    direction = normal(rng(seed, "widen").standard_normal((g, d)))
    best, where = np.zeros(g), direction
    for _ in range(passes):
        image = np.zeros((g, d))
        for start, x in batches():
            r = blocks.residual(x, start)
            loops.widen_sums(start, blocks.indptr, blocks.indices, blocks.norms, lam, r, direction, image)
        gain = (direction * image).sum(1) / max(blocks.n_rows, 1)
        better = gain > best
        best, where = np.where(better, gain, best), np.where(better[:, None], direction, where)
        direction = normal(image)
    return best, where


def split_gains(
    batches: Batches, blocks: Blocks, lam: float, passes: int = 6, seed: int = 0
) -> tuple[Float64[np.ndarray, " G"], Float64[np.ndarray, "G b d"]]:
    """Loss that two rotated copies D ± eΔ of each block remove at least, and Δ (Δ Dᵀ = 0).

    Each row goes to the copy that z Δ rᵀ points to: gain ≥ (E|zΔrᵀ|)² / tr(Δᵀ(E[zᵀz] + λΣ_g)Δ), for every Δ; raised by
    sign-power iteration, a pass over the rows each, Δ ← (E[zᵀz] + λΣ_g)⁻¹ E[sign(zΔrᵀ) zᵀr] (I - DᵀD).
    """
    from monoseme.optimality.blocks import loops

    n, cost = max(blocks.n_rows, 1), lam * blocks.moment
    for g in range(blocks.n_blocks):
        z = blocks.values[blocks.of(g)]
        cost[g] += z.T @ z / n
    inverse = np.linalg.pinv(cost, rcond=1e-10, hermitian=True)

    def tangent(v: np.ndarray) -> np.ndarray:
        v = v - (v @ blocks.frames.transpose(0, 2, 1)) @ blocks.frames
        return _unit(v, np.sqrt(np.square(v).sum((1, 2))))

    delta = tangent(rng(seed, "split").standard_normal(blocks.frames.shape))
    best, where = np.zeros(blocks.n_blocks), delta
    for _ in range(passes):
        pull, reach = np.zeros_like(delta), np.zeros(blocks.n_blocks)
        for start, x in batches():
            r = blocks.residual(x, start)
            loops.split_sums(start, blocks.indptr, blocks.indices, blocks.values, r, delta, pull, reach)
        weight = (delta * (cost @ delta)).sum((1, 2))
        gain = np.divide(np.square(reach / n), weight, out=np.zeros_like(weight), where=weight > 0)
        better = gain > best
        best, where = np.where(better, gain, best), np.where(better[:, None, None], delta, where)
        delta = tangent(inverse @ pull)
    return best, where


def new_block_gain(residual: Float64[np.ndarray, "n d"], frame: Float64[np.ndarray, "b d"], lam: float) -> float:
    """Loss removed by one more block, exactly: E (‖r Qᵀ‖ - λ)₊².

    0 inside every span of an optimum: signed blocks want no antipode.
    """
    return float(np.square(np.maximum(np.linalg.norm(residual @ frame.T, axis=1) - lam, 0.0)).mean())


def _unit(v: np.ndarray, norm: np.ndarray) -> np.ndarray:
    shape = (-1,) + (1,) * (v.ndim - 1)
    return np.divide(v, norm.reshape(shape), out=np.zeros_like(v), where=norm.reshape(shape) > 1e-12)
