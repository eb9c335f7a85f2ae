"""Moves that keep every reconstruction and lower the loss by a stated amount: certificates against a block j.

For blocks h ≠ j take B_h (b, b), and a bias b₀ (b,); v = Σ_h z_h B_h + b₀. With any step e

    D_h + e B_h D_j = S_h Q_h (polar),   D_h ← Q_h,   z_h ← z_h S_h,   z_j ← z_j - e v,   bias ← bias + e b₀ D_j

leaves x̂ as it is, and whatever the data, the codes (optimal or not) and λ (ours)

    ΔL ≤ 2λ(-e γ + e²/2 q),    γ = Σ_h ⟨B_h, M_hj⟩ + ⟨b₀, t_j⟩ - E[1_{j off} ‖v‖],    t_j = E[1_{j on} u_j]
                               q = E Σ_h ‖z_h B_h‖² / ‖z_h‖ + E[1_{j on} ‖v‖² / ‖z_j‖]

from √(1 + s) ≤ 1 + s/2. So γ > 0 proves that this is no local optimum: e = γ/q removes at least λ γ²/q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.optimality.blocks.frames import Blocks, polar

__all__ = ["Move", "Promise", "apply_move", "held_out_p", "pair_move", "promise", "row_gains", "taken"]

STEPS = 40  # of the refinement of one pair


@dataclass(frozen=True, eq=False)
class Move:
    """Against block `block`: B_h (b, b) for every partner, and b₀ (all zero for a bias that stays).

    Maps are in the coordinates of the frames of `Blocks`.
    """

    block: int
    partners: tuple[int, ...]
    maps: Float64[np.ndarray, "p b b"]
    offset: Float64[np.ndarray, " b"]


@dataclass(frozen=True)
class Promise:
    """γ and q of a move on given rows. The step γ/q removes at least `gain`; nothing is promised where γ ≤ 0."""

    slope: float
    cost: float

    @property
    def step(self) -> float:
        """The best e; 0 where nothing is promised."""
        return self.slope / self.cost if self.slope > 0 and self.cost > 0 else 0.0

    @property
    def gain(self) -> float:
        """γ²/q: loss removed at least, ÷ λ."""
        return self.slope * self.step


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows on which block j or a partner is on; `rest` rows have none of them."""

    on: Bool[np.ndarray, " m"]
    z: Float64[np.ndarray, "m p b"]  # partners' codes
    u: Float64[np.ndarray, "m b"]  # direction of block j, zero where it is off
    norm: Float64[np.ndarray, " m"]  # ‖z_j‖, 1 where it is off
    overlap: Float64[np.ndarray, "p b b"]  # D_h D_jᵀ
    rows: Int64[np.ndarray, " m"]
    rest: int

    @property
    def n(self) -> int:
        return len(self.on) + self.rest

    def scaled(self) -> Float64[np.ndarray, "m p b"]:
        """z_h / √‖z_h‖, zero where h is off."""
        size = np.sqrt(np.square(self.z).sum(2, keepdims=True))
        return self.z / np.sqrt(np.where(size > 0, size, 1.0))


def _see(blocks: Blocks, j: int, partners: tuple[int, ...]) -> _Seen:
    held = [blocks.of(h) for h in (j, *partners)]
    rows = np.unique(np.concatenate([blocks.rows[entries] for entries in held]))
    z = np.zeros((len(rows), 1 + len(partners), blocks.size))
    for p, entries in enumerate(held):
        z[np.searchsorted(rows, blocks.rows[entries]), p] = blocks.values[entries]
    norm = np.sqrt(np.square(z[:, 0]).sum(1))
    on = norm > 0
    size = np.where(on, norm, 1.0)
    overlap = blocks.frames[list(partners)] @ blocks.frames[j].T
    return _Seen(on, z[:, 1:], z[:, 0] / size[:, None], size, overlap, rows, blocks.n_rows - len(rows))


def _shift(seen: _Seen, maps: np.ndarray, offset: np.ndarray) -> Float64[np.ndarray, "m b"]:
    """Return v of every row that is seen."""
    return np.einsum("mpb,pbc->mc", seen.z, maps) + offset


def _slopes(seen: _Seen, maps: np.ndarray, offset: np.ndarray) -> Float64[np.ndarray, " m"]:
    """What each seen row adds to n·γ."""
    v = _shift(seen, maps, offset)
    return np.where(seen.on, (seen.u * v).sum(1), -np.sqrt(np.square(v).sum(1))) - _tilt(seen, maps)


def _tilt(seen: _Seen, maps: np.ndarray) -> Float64[np.ndarray, " m"]:
    """Σ_h u_h D_h D_jᵀ B_hᵀ z_hᵀ: how much longer the partners' codes become, to first order."""
    scaled = seen.scaled()
    return np.einsum("mpa,pab,pcb,mpc->m", scaled, seen.overlap, maps, scaled, optimize=True)


def _promise(seen: _Seen, maps: np.ndarray, offset: np.ndarray) -> Promise:
    v, n = _shift(seen, maps, offset), seen.n
    slopes, rest = _slopes(seen, maps, offset), seen.rest * float(np.linalg.norm(offset))
    turned = np.einsum("mpb,pbc->mpc", seen.scaled(), maps)
    cost = float(np.square(turned).sum() + (np.square(v).sum(1) / seen.norm)[seen.on].sum())
    slope = float(slopes.sum()) - rest
    if slope <= 1e-9 * (float(np.abs(slopes).sum()) + rest):  # rounding must prove nothing
        slope = min(slope, 0.0)
    return Promise(slope / n, cost / n)


def promise(blocks: Blocks, move: Move) -> Promise:
    """γ and q of a move on these rows, from the codes alone."""
    return _promise(_see(blocks, move.block, move.partners), move.maps, move.offset)


def taken(blocks: Blocks, move: Move) -> tuple[float, float]:
    """Return the two ways in which γ is won: E[1_{j on} u_j·v], what partners take over from j, and what they release.

    The second is -E Σ u_h D_h D_jᵀ B_hᵀ z_hᵀ: codes of partners become shorter, because they held what belongs to j.
    """
    seen = _see(blocks, move.block, move.partners)
    over = float((seen.u * _shift(seen, move.maps, move.offset)).sum()) / seen.n
    return over, -_tilt(seen, move.maps).sum() / seen.n


def row_gains(blocks: Blocks, move: Move) -> tuple[Float64[np.ndarray, " m"], int, float]:
    """What each row adds to the mean γ: rows that the move touches; how many others there are, what each adds."""
    seen = _see(blocks, move.block, move.partners)
    return _slopes(seen, move.maps, move.offset), seen.rest, -float(np.linalg.norm(move.offset))


def held_out_p(held: Blocks, move: Move) -> float:
    """One-sided p-value of "γ ≤ 0 in the population", from rows that the move was not found on (Student's t).

    `held` must be in the same frames. γ is a mean over rows; on those that a move was fitted to it is biased upwards.
    """
    from scipy.stats import t

    slopes, rest, each = row_gains(held, move)
    n = len(slopes) + rest
    if n < 2:
        return 1.0
    mean = (float(slopes.sum()) + rest * each) / n
    square = float(np.square(slopes - mean).sum()) + rest * (each - mean) ** 2
    error = np.sqrt(square / (n - 1) / n)
    if error == 0:
        return 1.0
    return float(t.sf(mean / error, n - 1))


def pair_move(blocks: Blocks, h: int | None, j: int, learned_bias: bool = True) -> tuple[Move, Promise]:
    """Return the best move against j with the one partner h, or with the bias alone (`None`): λ γ²/q as large as found.

    Any B promises what it promises, so it does not matter how far the search came.
    """
    partners, b = () if h is None else (h,), blocks.size
    seen = _see(blocks, j, partners)
    best, move = Promise(0.0, 0.0), Move(j, partners, np.zeros((len(partners), b, b)), np.zeros(b))
    for stacked in _tries(seen, b, learned_bias):
        maps, offset = stacked[:-1].reshape(-1, b, b), stacked[-1]
        found = _promise(seen, maps, offset)
        if found.gain > best.gain:
            best, move = found, replace(move, maps=maps, offset=offset)
    return move, best


def _tries(seen: _Seen, b: int, learned_bias: bool) -> Iterator[Float64[np.ndarray, "rows b"]]:
    """Yield B over b₀: the closed form S⁻¹M of the screen, H⁻¹M with H the matrix of q, and what that is refined to.

    ‖v‖ ≤ (‖v‖²/w + w)/2 with w the last ‖v‖ makes each step a linear system, and never lowers γ - q/2.
    """
    p, off = len(seen.overlap) * b, ~seen.on
    one = np.full((len(off), 1), float(learned_bias))
    zeta = np.concatenate([seen.z.reshape(len(off), p), one], 1)
    target = zeta[seen.on].T @ seen.u[seen.on]
    cost = (zeta[seen.on] / seen.norm[seen.on, None]).T @ zeta[seen.on]
    if p:
        scaled = seen.scaled()[:, 0]
        spread, closed = scaled.T @ scaled, np.zeros_like(target)
        target[:p] -= spread @ seen.overlap[0]
        cost[:p, :p] += spread
        closed[:p] = _solve(scaled[off].T @ scaled[off], target[:p], 1e-12 * float(np.trace(spread)))
        yield closed
    stacked = _solve(cost, target)
    for _ in range(STEPS):
        yield stacked
        length, shift = np.sqrt(np.square(zeta[off] @ stacked).sum(1)), float(np.linalg.norm(stacked[p]))
        least = 1e-9 * max(float(length.max(initial=0.0)), shift, 1e-300)
        reach = (zeta[off] / np.maximum(length, least)[:, None]).T @ zeta[off]
        reach[p, p] += seen.rest / max(shift, least) if learned_bias else 0.0
        following = _solve(cost + reach, target)
        if np.abs(following - stacked).max() <= 1e-9 * np.abs(stacked).max():
            break
        stacked = following


def _solve(matrix: np.ndarray, target: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """matrix⁻¹ target for a symmetric matrix; directions in which it vanishes are raised to `floor`, or left out."""
    value, vector = np.linalg.eigh((matrix + matrix.T) / 2)
    small = value <= max(floor, 1e-13 * float(value[-1]), 1e-300)
    scale = np.where(small, floor and 1 / floor, 1 / np.where(small, 1.0, value))
    return (vector * scale) @ (vector.T @ target)


def apply_move(blocks: Blocks, move: Move, step: float) -> Blocks:
    """Make the move: other frames, codes and bias, the same reconstructions."""
    frames, values, j = blocks.frames.copy(), blocks.values.copy(), move.block
    column = np.zeros((blocks.n_rows, blocks.size))
    column[blocks.rows[blocks.of(j)]] = blocks.values[blocks.of(j)]
    column -= step * move.offset
    for h, map_ in zip(move.partners, move.maps, strict=True):
        entries = blocks.of(h)
        column[blocks.rows[entries]] -= step * (blocks.values[entries] @ map_)
        frame, stretch, _ = polar((frames[h] + step * map_ @ blocks.frames[j])[None])
        frames[h], values[entries] = frame[0], blocks.values[entries] @ stretch[0]
    bias = blocks.bias + step * move.offset @ blocks.frames[j]
    kept, own = np.flatnonzero(blocks.indices != j), np.flatnonzero((column != 0).any(1))
    rows = np.concatenate([blocks.rows[kept], own])
    indices = np.concatenate([blocks.indices[kept], np.full(len(own), j, np.int32)])
    order = np.lexsort((indices, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=blocks.n_rows))]).astype(np.int64)
    codes = np.concatenate([values[kept], column[own]])[order]
    return Blocks(frames, bias, indptr, indices[order], codes, blocks.notes)
