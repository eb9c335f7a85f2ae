"""`solve`: a good local solver of the joint problem in codes, atoms and bias, with its certificate.

Exact block steps, each lowering the loss: codes by nonnegative lasso, each atom to the direction of its residual
(E[z_k (r + z_k w_k)], normalised; the best for fixed codes), the bias by the mean residual. At such a point duplicate
atoms can hide a better one: with K = N, a share of all starts ends there (arXiv 2606.02385 speaks of local = global in
Q = Z'Z; in (W, Z) it is not so). Merging duplicates costs nothing; the freed atom goes to the row with the largest
‖r_i‖, where it wins whenever ‖r_i‖ > λ. With K1-K3 and all ‖r_i‖ ≤ λ the point is global (ours).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.optimality.gains import duplicates
from monoseme.optimality.lasso import resolve
from monoseme.optimality.reading import as_matrix
from monoseme.optimality.wide import check_lam, huber, wide_limit

__all__ = ["Solution", "descend", "solve"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A local solution and what proves it.

    Attributes
    ----------
    atoms, codes, bias
        (K, d) unit atoms, (n, K) codes, (d,).
    loss
        E‖Wz + b - x‖² + 2λ E Σ z.
    wide
        L∞, the value of infinite width: no dictionary is below. ``loss - wide`` is what width could still win.
    stationarity
        Largest violation of K1-K3, units of λ; near 0 at a stationary point.
    longest
        Largest ‖r_i‖ ÷ λ.
    is_global
        Whether it is proven that nothing is better, at any width: stationary, and no residual longer than λ.
    history
        Loss after every round; it never rises.
    """

    atoms: Float64[np.ndarray, "K d"]
    codes: Float64[np.ndarray, "n K"]
    bias: Float64[np.ndarray, " d"]
    loss: float
    wide: float
    stationarity: float
    longest: float
    is_global: bool
    history: tuple[float, ...]


def solve(
    x: np.ndarray | Tensor,
    n_atoms: int,
    lam: float,
    *,
    learned_bias: bool = True,
    bias: Float64[np.ndarray, " d"] | None = None,
    atoms: Float64[np.ndarray, "K d"] | None = None,
    reseed: bool = True,
    starts: int = 1,
    rounds: int = 500,
    tol: float = 1e-10,
    seed: int = 0,
) -> Solution:
    """Solve the joint problem from random rows as atoms, and return the best of `starts`.

    Parameters
    ----------
    x
        (n, d) rows, floating point.
    n_atoms
        K.
    lam
        λ > 0, units of x.
    learned_bias
        Whether b moves; if not it stays at `bias` (0).
    bias, atoms
        Where to begin, instead of the mean and of random rows.
    reseed
        Whether duplicates are merged and freed and dead atoms sent to the largest residual.
    starts, seed
        Independent starts, and their seed.
    rounds, tol
        Rounds of all block steps; stop when one wins less than tol · loss.
    """
    rows, lam = as_matrix(x, "x"), check_lam(lam)
    if isinstance(n_atoms, bool) or not isinstance(n_atoms, int) or n_atoms < 1:
        raise refuse("n_atoms", "be a whole number, at least 1", repr(n_atoms), "It is the width of the dictionary.")
    best: Solution | None = None
    for start in range(starts):
        found = _one(rows, n_atoms, lam, learned_bias, bias, atoms, reseed, rounds, tol, seed + start)
        if best is None or found.loss < best.loss:
            best = found
    assert best is not None
    return best


def _one(x, k, lam, learned, bias, atoms, reseed, rounds, tol, seed) -> Solution:
    r = rng(seed, "solve")
    b = x.mean(0) if bias is None and learned else np.zeros(x.shape[1]) if bias is None else np.array(bias, float)
    w = _start(x - b, k, r) if atoms is None else np.array(atoms, float)
    w, b, z, history = descend(x, w, b, lam, learned, rounds, tol)
    best, tries = history[-1], 0
    while reseed and tries < 4 * k + 8:
        tries += 1
        moved = _reseed(x, w, b, z, lam)
        if moved is None:
            break
        w2, b2, z2, more = descend(x, moved, b, lam, learned, rounds, tol)
        if more[-1] >= best * (1 - 1e-12) - 1e-15:
            break
        w, b, z, best = w2, b2, z2, more[-1]
        history += more
    return _certified(x, w, b, z, lam, learned, history)


def _start(centred, k, r):
    w = centred[r.integers(0, len(centred), k)] + 1e-3 * r.standard_normal((k, centred.shape[1]))
    return w / np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-12)


def descend(x, w, b, lam, learned, rounds, tol):
    """Codes, atoms, bias, over and over, until a round wins next to nothing."""
    w, b, history = w.copy(), b.copy(), []
    z = _codes(x, w, b, lam)
    for _ in range(rounds):
        residual = x - b - z @ w
        for j in range(len(w)):
            target = z[:, j] @ (residual + np.outer(z[:, j], w[j]))
            size = np.linalg.norm(target)
            if size > 0:
                new = target / size
                residual -= np.outer(z[:, j], new - w[j])
                w[j] = new
        if learned:
            b += residual.mean(0)
        z = _codes(x, w, b, lam)
        history.append(_loss(x, w, b, z, lam))
        if len(history) > 1 and history[-2] - history[-1] <= tol * history[-1]:
            break
    return w, b, z, history


def _codes(x, w, b, lam):
    found = resolve(x, w, b, lam, tol=1e-13)
    z = np.zeros((len(x), len(w)))
    z[np.repeat(np.arange(len(x)), np.diff(found.indptr)), found.indices] = found.values
    return z


def _loss(x, w, b, z, lam):
    return float(np.square(x - b - z @ w).sum(1).mean() + 2 * lam * z.sum(1).mean())


def _reseed(x, w, b, z, lam):
    """Atoms with one merged or dead one sent to the largest residual; ``None`` when there is nothing to free or win."""
    residual = x - b - z @ w
    length = np.linalg.norm(residual, axis=1)
    worst = int(length.argmax())
    if length[worst] <= lam * (1 + 1e-7):
        return None
    free = np.flatnonzero(z.max(0) <= 0).tolist() or [group[1] for group in duplicates(w, 1 - 1e-5)]
    if not free:
        return None
    w = w.copy()
    w[free[0]] = residual[worst] / length[worst]
    return w


def _certified(x, w, b, z, lam, learned, history) -> Solution:
    residual = x - b - z @ w
    products, on, m = residual @ w.T, z > 0, z.mean(0)
    off = np.where(on, np.abs(products - lam), np.maximum(products - lam, 0.0)).max(initial=0.0)
    live = m > 0
    moment = (z.T @ residual / len(x))[live] - lam * m[live, None] * w[live]
    turn = float((np.linalg.norm(moment, axis=1) / np.maximum(m[live], 1e-300)).max(initial=0.0))
    shift = float(np.linalg.norm(residual.mean(0))) if learned else 0.0
    stationarity = max(float(off), turn, shift) / lam
    longest = float(np.linalg.norm(residual, axis=1).max()) / lam
    if learned:
        limit = wide_limit(x, lam, tol=1e-12)
        wide = limit.loss - limit.gap
    else:
        wide = float(huber(np.linalg.norm(x - b, axis=1), lam).mean())
    proven = stationarity <= 1e-4 and longest <= 1 + 1e-4
    return Solution(w, z, b, _loss(x, w, b, z, lam), wide, stationarity, longest, proven, tuple(history))
