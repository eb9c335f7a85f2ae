"""Pair screens: for every ordered pair (h, j) of blocks, whether tilting h towards j can lower the loss.

The change  D_h ← D_h + e B D_j,  z_j ← z_j - e z_h B  (h back on the frames) leaves every reconstruction as it is. At a
local optimum it cannot pay, so for every B (ours)

    ⟨B, M_hj⟩ ≤ E[1_{j off} ‖z_h B‖],       M_hj = E[1_{j on} z_hᵀ u_j] - Σ_h D_h D_jᵀ                      (H, a pair)

With S = E[1_{j off} z_hᵀ z_h / ‖z_h‖] two closed forms decide most pairs:

    stable    ‖S⁻¹ M‖_op ≤ 1                  u_h S⁻¹M are weights in the unit ball that prove the pair harmless
    unstable  tr(Mᵀ S⁻¹ M) > tr S             B = S⁻¹ M breaks (H), by Cauchy-Schwarz

λ does not appear. A pair that is never on together has M = -S C, and is stable. For b = 1 nothing is between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int8, Int64

from monoseme.optimality.blocks.frames import Blocks

__all__ = ["PairMoments", "Screens", "Survey", "merge_moments", "pair_moments", "screen", "screen_columns", "survey"]

FLOATS = 1 << 22  # of products of frames held at once: 32 MB
TRIED = 3  # partners of a block that are kept
FLOOR = 1e-12  # of m_h: below it a moment is rounding


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Sums over rows for the pairs that are ever on together, ordered (h, j); they add up over batches.

    Attributes
    ----------
    n
        Rows.
    h, j
        Number of the tilted block and of the one it is tilted towards.
    both
        Rows on which both are on.
    cross, on, ratio
        Over these rows Σ z_hᵀ u_j, Σ z_hᵀ z_h / ‖z_h‖ and Σ z_hᵀ z_h / ‖z_j‖.
    shared
        Over these rows Σ ‖c_h‖ + ‖c_j‖ - ‖c_h + c_j‖: what one block for both saves, ÷ 2λ.
    overlap
        C = D_h D_jᵀ.
    """

    n: int
    h: Int64[np.ndarray, " P"]
    j: Int64[np.ndarray, " P"]
    both: Float64[np.ndarray, " P"]
    cross: Float64[np.ndarray, "P b b"]
    on: Float64[np.ndarray, "P b b"]
    ratio: Float64[np.ndarray, "P b b"]
    shared: Float64[np.ndarray, " P"]
    overlap: Float64[np.ndarray, "P b b"]


@dataclass(frozen=True, eq=False)
class Screens:
    """What the screens say of pairs.

    Attributes
    ----------
    h, j, both, shared
        As in `PairMoments`, per row of the sample.
    label
        1 stable, -1 unstable, 0 between.
    strain
        √(tr(MᵀS⁻¹M) / tr S): a lower bound of how many λ long the residual must be inside block j's span on some row
        where j is off. Above 1 no optimum has it.
    """

    h: Int64[np.ndarray, " P"]
    j: Int64[np.ndarray, " P"]
    both: Float64[np.ndarray, " P"]
    shared: Float64[np.ndarray, " P"]
    label: Int8[np.ndarray, " P"]
    strain: Float64[np.ndarray, " P"]


def pair_moments(blocks: Blocks, low: int = 0, high: int | None = None) -> PairMoments:
    """Sums for every pair (h, j) with j in low..high that is ever on together; memory G·b² a column, and the pairs'."""
    from monoseme.optimality.blocks import loops

    high, b = blocks.n_blocks if high is None else high, blocks.size
    counts = np.zeros(high - low, np.int64)
    where = (blocks.starts, blocks.order, blocks.rows, blocks.indptr, blocks.indices)
    loops.count_partners(low, high, *where, np.full(blocks.n_blocks, -1), counts)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    p = int(first[-1])
    overlap = blocks.directions @ blocks.frames[low:high].reshape((high - low) * b, -1).T
    h, j, both, shared = np.zeros(p, np.int64), np.zeros(p, np.int64), np.zeros(p), np.zeros(p)
    cross, on, ratio, product = (np.zeros((p, b, b)) for _ in range(4))
    out = (h, j, both, cross, on, ratio, shared, product)
    slot = np.full(blocks.n_blocks, -1)
    loops.pair_sums(low, high, *where, blocks.values, blocks.norms, overlap, slot, first, out)
    return PairMoments(blocks.n_rows, h, j, both, cross, on, ratio, shared, product)


def merge_moments(one: PairMoments, other: PairMoments) -> PairMoments:
    """Sums over both samples' rows, over the same frames."""
    h, j = np.concatenate([one.h, other.h]), np.concatenate([one.j, other.j])
    width = int(h.max(initial=0)) + 1
    keys, first, place = np.unique(j * width + h, return_index=True, return_inverse=True)

    def total(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        out = np.zeros((len(keys), *a.shape[1:]))
        np.add.at(out, place, np.concatenate([a, b]))
        return out

    summed = {
        name: total(getattr(one, name), getattr(other, name)) for name in ("both", "cross", "on", "ratio", "shared")
    }
    overlap = np.concatenate([one.overlap, other.overlap])[first]
    return PairMoments(one.n + other.n, keys % width, keys // width, **summed, overlap=overlap)


def screen(moments: PairMoments, spread: Float64[np.ndarray, "G b b"]) -> Screens:
    """Both closed forms for every pair; `spread` is Σ_g = E[z_gᵀ z_g / ‖z_g‖], `Blocks.moment`, over the same rows.

    Directions in which S vanishes are given FLOOR · m_h: with that, both forms still hold, "unstable" exactly and
    "stable" to rounding.
    """
    own, n = spread[moments.h], max(moments.n, 1)
    mass = np.trace(own, axis1=1, axis2=2)
    off = own - moments.on / n
    m = moments.cross / n - own @ moments.overlap
    floor = FLOOR * mass
    value, vector = np.linalg.eigh((off + off.transpose(0, 2, 1)) / 2)
    value = np.maximum(value, floor[:, None])
    turned = vector.transpose(0, 2, 1) @ m
    weight = turned / value[:, :, None]  # S⁻¹M up to a rotation, which changes no norm
    total, allowed = (turned * weight).sum((1, 2)), value.sum(1)
    largest = np.linalg.eigvalsh(weight.transpose(0, 2, 1) @ weight)[:, -1]
    label = np.zeros(len(mass), np.int8)
    label[largest <= (1 + 1e-9) ** 2] = 1
    label[total > allowed * (1 + 1e-9)] = -1
    strain = np.sqrt(total / allowed)
    strain[(allowed <= 2 * moments.overlap.shape[1] * floor) & (label < 0)] = np.inf
    return Screens(moments.h, moments.j, moments.both / n, moments.shared / n, label, strain)


def screen_columns(blocks: Blocks) -> Iterator[Screens]:
    """Screens of all pairs, some columns j at a time, so that no G × G array is ever held."""
    columns = max(1, FLOATS // (4 * blocks.n_blocks * blocks.size**2))
    for low in range(0, blocks.n_blocks, columns):
        yield screen(pair_moments(blocks, low, min(low + columns, blocks.n_blocks)), blocks.moment)


@dataclass(frozen=True, eq=False)
class Survey:
    """What is kept of all pairs.

    Attributes
    ----------
    counts
        Pairs that are ever on together, by label.
    silent
        Ordered pairs that never are; all stable.
    strain, strained_by
        Largest strain of every block j, and its h; 0 and -1 where it shares no row.
    candidates
        For every block j the few h that are not stable, largest strain first.
    shared, sharing
        Most that one block for two saves, ÷ 2λ, and which two; -1 when no two are on together.
    """

    counts: Mapping[int, int]
    silent: int
    strain: Float64[np.ndarray, " G"]
    strained_by: Int64[np.ndarray, " G"]
    candidates: Mapping[int, list[int]]
    shared: float
    sharing: tuple[int, int]


def survey(blocks: Blocks) -> Survey:
    """Screen all pairs, and keep what the verdicts need."""
    g = blocks.n_blocks
    counts, pairs = {1: 0, 0: 0, -1: 0}, 0
    strain, by, candidates = np.zeros(g), np.full(g, -1), {}
    shared, sharing = 0.0, (-1, -1)
    for s in screen_columns(blocks):
        pairs += len(s.h)
        for label in counts:
            counts[label] += int((s.label == label).sum())
        order = np.lexsort((s.strain, s.j))  # the last of each j has the largest strain
        last = np.flatnonzero(np.diff(s.j[order], append=-1))
        strain[s.j[order][last]], by[s.j[order][last]] = s.strain[order][last], s.h[order][last]
        for p in order[::-1][s.label[order[::-1]] < 1].tolist():
            tried = candidates.setdefault(int(s.j[p]), [])
            if len(tried) < TRIED:
                tried.append(int(s.h[p]))
        if len(s.h) and s.shared.max() > shared:
            most = int(s.shared.argmax())
            shared, sharing = float(s.shared[most]), (int(s.h[most]), int(s.j[most]))
    return Survey(counts, g * (g - 1) - pairs, strain, by, candidates, shared, sharing)
