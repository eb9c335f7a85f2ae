"""What single changes of a dictionary would win, exactly or at least: splits, antipodes, duplicates, dead atoms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from monoseme.core.seeds import rng
from monoseme.optimality.columns import Columns
from monoseme.optimality.latents import Latents

__all__ = ["NewAtom", "antipodal_pairs", "antipode_theorem", "duplicates", "new_atom", "split_gains"]

Batches = Callable[[], Iterator[tuple[np.ndarray, Any]]]  # rows (n, d) and their codes, scipy CSR (n, K)


def antipode_theorem(density: Float64[np.ndarray, " K"], lam: float) -> Float64[np.ndarray, " K"]:
    """Least gain of adding the atom -w_j at a point that fulfils K1-K3 with a learned bias: λ² (2p - 1)₊² / (1 - p).

    At such a point the slacks of the rows where j is off average to 1/(1 - p_j); above p = 1/2 some must exceed 2, and
    then -w_j correlates with a residual by more than λ (ours; generalises the 50 % rule to any data).
    """
    return lam * lam * np.square(np.maximum(2 * density - 1, 0.0)) / np.maximum(1 - density, 1e-300)


def split_gains(
    batches: Batches, latents: Latents, by: Columns, lam: float, passes: int = 6, seed: int = 0
) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, "K d"]]:
    """Loss that two rotated copies of each atom remove at least, and the directions δ in which to rotate.

    Copies w ± eδ with δ ⟂ w, each row to the copy that δ·r points to:
    gain ≥ E[z |δ·r|]² / (E z² + λ m) (ours). Any δ gives a valid bound; it is raised by sign-power iteration, a pass
    over the rows each. Where K2 does not hold, part of it may be what turning the one atom wins. Zero iff r = λ w on
    every row where the atom is active. Higher: more to be split.
    """
    from monoseme.optimality import loops

    def tangent(v: Float64[np.ndarray, "K d"]) -> Float64[np.ndarray, "K d"]:
        v = v - (v * latents.atoms).sum(1, keepdims=True) * latents.atoms
        norm = np.linalg.norm(v, axis=1, keepdims=True)
        return np.divide(v, norm, out=np.zeros_like(v), where=norm > 1e-12)

    n = latents.n_rows
    delta = tangent(rng(seed, "split").standard_normal(latents.atoms.shape))
    best, where = np.zeros(len(delta)), delta
    cost = by.square + lam * by.mass
    for _ in range(passes):
        pull, reach = np.zeros_like(delta), np.zeros(len(delta))
        for x, codes in batches():
            r = x - latents.bias - codes @ latents.atoms
            indices = codes.indices.astype(np.int32)
            loops.split_sums(codes.indptr.astype(np.int64), indices, codes.data, r, delta, pull, reach)
        gain = np.divide(np.square(reach / n), cost, out=np.zeros_like(cost), where=cost > 0)
        better = gain > best
        best, where = np.where(better, gain, best), np.where(better[:, None], delta, where)
        delta = tangent(pull)
    return best, where


@dataclass(frozen=True, eq=False)
class NewAtom:
    """One more atom: where, what it wins with all other codes frozen, and what no single atom can exceed.

    Attributes
    ----------
    direction
        (d,), unit norm; 0 when no residual is longer than λ, for then no atom wins anything.
    gain
        E[(⟨w, r⟩ - λ)₊²], exact at frozen codes; re-solving them wins more. Units of ‖x‖².
    ceiling
        E[(‖r‖ - λ)₊²] ≥ the gain of any one direction.
    """

    direction: Float64[np.ndarray, " d"]
    gain: float
    ceiling: float


def new_atom(batches: Batches, latents: Latents, lam: float, passes: int = 10, starts: int = 8) -> NewAtom:
    """Look for the atom that wins most: w ← E[(⟨w, r⟩ - λ)₊ r], normalised, from the longest residuals (ours).

    The gain is convex in w, so no step lowers it; it may end at a local maximum. A pass over the rows each.
    """
    seeds, ceiling, n = np.zeros((0, latents.atoms.shape[1])), 0.0, latents.n_rows
    for x, codes in batches():
        r = x - latents.bias - codes @ latents.atoms
        length = np.linalg.norm(r, axis=1)
        ceiling += float(np.square(np.maximum(length - lam, 0.0)).sum()) / n
        seeds = np.vstack([seeds, r[length > lam]])
        seeds = seeds[np.argsort(-np.linalg.norm(seeds, axis=1), kind="stable")[:starts]]
    if not len(seeds):
        return NewAtom(np.zeros(latents.atoms.shape[1]), 0.0, 0.0)
    w, shown, gain = seeds, seeds, np.zeros(len(seeds))
    for _ in range(passes):
        w = w / np.linalg.norm(w, axis=1, keepdims=True)
        pull, gain, shown = np.zeros_like(w), np.zeros(len(w)), w
        for x, codes in batches():
            r = x - latents.bias - codes @ latents.atoms
            over = np.maximum(r @ w.T - lam, 0.0)
            gain += np.square(over).sum(0) / n
            pull += over.T @ r
        w = pull  # never 0: every start has a row on which it wins, and gains do not fall
    best = int(gain.argmax())
    return NewAtom(shown[best], float(gain[best]), ceiling)


def duplicates(atoms: Float64[np.ndarray, "K d"], cosine: float = 1 - 1e-6) -> list[list[int]]:
    """Groups of atoms at that cosine or above, transitively; merging one changes no reconstruction and no loss."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, cols = [], []
    for start in range(0, len(atoms), 1024):
        near = np.argwhere(atoms[start : start + 1024] @ atoms.T >= cosine)
        rows.append(near[:, 0] + start)
        cols.append(near[:, 1])
    i, j = np.concatenate(rows), np.concatenate(cols)
    _, label = connected_components(coo_array((np.ones(len(i)), (i, j)), shape=(len(atoms),) * 2), directed=False)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return [group.tolist() for group in groups if len(group) > 1]


def antipodal_pairs(
    latents: Latents, by: Columns, cosine: float = -0.9, both: float = 0.01, either: float = 0.5
) -> list[tuple[int, int]]:
    """Pairs that code one dense variable: cos ≤ `cosine`, P(both on) ≤ `both`, P(either on) > `either`."""
    found = []
    for start in range(0, latents.n_latents, 1024):
        near = np.argwhere(latents.atoms[start : start + 1024] @ latents.atoms.T <= cosine)
        for a, b in near.tolist():
            i, j = a + start, b
            if i >= j:
                continue
            together = len(np.intersect1d(by.of(i)[0], by.of(j)[0])) / latents.n_rows
            if together <= both and by.density[i] + by.density[j] - together > either:
                found.append((i, j))
    return found
