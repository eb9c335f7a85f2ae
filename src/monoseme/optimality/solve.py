"""`solve`: a good local solver of the joint problem in codes, atoms and bias, with its certificate.

Exact block steps, each lowering the loss: codes by the lasso, each atom to the direction of its residual
(E[z_k (r + z_k w_k)], normalised; the best for fixed codes), the bias by the mean residual. At such a point duplicate
atoms can hide a better one: with K = N, a share of all starts ends there (arXiv 2606.02385 speaks of local = global in
Q = ZZᵀ; in (W, Z) it is not so). Merging duplicates costs nothing; the freed atom goes to the row with the largest
‖r_i‖, where it wins whenever ‖r_i‖ > λ. With K1-K3 and all ‖r_i‖ ≤ λ the point is global at any width (ours).

Signed codes are nonnegative codes of the 2K atoms ±w_k, so all of this, and the wide limit, holds for them too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.optimality.gains import duplicates
from monoseme.optimality.lasso import resolve
from monoseme.optimality.objective import loss
from monoseme.optimality.reading import as_matrix, check_lam, check_number
from monoseme.optimality.wide import universal_bound, wide_limit

__all__ = ["Solution", "descend", "solve"]

SAME = 1 - 1e-5  # cosine from which atoms are tried as duplicates; kept only where the loss falls
MOST_FLOATS = 1 << 28  # codes and atoms: 2 GiB
PROVEN = 1e-4  # K1-K3 and ‖r‖ ÷ λ - 1, below which the global optimum counts as proven


@dataclass(frozen=True, eq=False)
class Solution:
    """A local solution and what proves it.

    Attributes
    ----------
    atoms, codes, bias
        (K, d) unit atoms, (n, K) codes, (d,).
    loss
        E‖zW + b - x‖² + 2λ E Σ |z|, units of ‖x‖².
    wide
        L∞, the value of infinite width (with a fixed bias, at this bias): no dictionary is below.
    k1
        Codes: largest of |⟨w_k, r_i⟩ - λ sign(z_ik)| where z_ik is on and of the excess over λ where it is off; in λ.
    k2
        Atoms: largest of ‖E[z_k r] - λ m_k w_k‖ ÷ λ m_k, m_k = E|z_k|, over atoms that are ever on.
    k3
        Bias: ‖E r‖ ÷ λ; 0 with a fixed one.
    longest
        Largest ‖r_i‖ ÷ λ.
    history
        Loss after every round. It never rises, but for the round in which atoms merge that were not quite the same.
    """

    atoms: Float64[np.ndarray, "K d"]
    codes: Float64[np.ndarray, "n K"]
    bias: Float64[np.ndarray, " d"]
    loss: float
    wide: float
    k1: float
    k2: float
    k3: float
    longest: float
    history: tuple[float, ...]

    @property
    def gap(self) -> float:
        """What more width could still win at most: loss - L∞, units of ‖x‖². Lower is better."""
        return self.loss - self.wide

    @property
    def stationarity(self) -> float:
        """Largest violation of K1-K3, units of λ; near 0 at a stationary point."""
        return max(self.k1, self.k2, self.k3)

    @property
    def is_global(self) -> bool:
        """Whether it is proven that nothing is better, at any width: stationary, and no residual longer than λ."""
        return self.stationarity <= PROVEN and self.longest <= 1 + PROVEN


def solve(
    x: np.ndarray | Tensor,
    n_atoms: int,
    lam: float,
    *,
    signed: bool = False,
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
    signed
        Whether codes may be negative.
    learned_bias
        Whether b moves; if not it stays at `bias` (0).
    bias, atoms
        Where to begin, instead of the mean and of random rows. Atoms are made unit.
    reseed
        Whether duplicates are merged and freed and dead atoms sent to the largest residual.
    starts, seed
        Independent starts, and their seed.
    rounds, tol
        Rounds of all block steps; stop when one wins less than tol · loss.

    Raises
    ------
    UserError
        If x is no finite floating-point matrix, λ ≤ 0, atoms, bias, `n_atoms`, `starts` do not fit, or codes and atoms
        do not fit into 2 GiB.
    """
    rows, lam = as_matrix(x, "x"), check_lam(lam)
    for name, value in (("n_atoms", n_atoms), ("starts", starts), ("rounds", rounds)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise refuse(name, "be a whole number, at least 1", repr(value), "Atoms, starts and rounds are counted.")
    tol = check_number(tol, "tol", 0, math.inf, "Rounds end when one wins less than tol times the loss.")
    _check_memory(n_atoms, len(rows), rows.shape[1], signed)
    problem = _Problem(rows, lam, signed, learned_bias, rounds, tol)
    first = None if bias is None else as_matrix(np.asarray(bias)[None], "bias", rows.shape[1])[0]
    given = None if atoms is None else _unit(as_matrix(atoms, "atoms", rows.shape[1]))
    if given is not None and len(given) != n_atoms:
        raise refuse("atoms", f"be n_atoms = {n_atoms}", len(given), "Bring as many as you ask for.")
    found = [_one(problem, n_atoms, first, given, reseed, seed + start) for start in range(starts)]
    return min(found, key=lambda solution: solution.loss)


def _check_memory(k: int, n: int, d: int, signed: bool) -> None:
    """Refuse atoms of which codes, directions and products with one another would not fit, before any is made."""
    each = (n + d) * (2 if signed else 1)
    if k * (each + k) > MOST_FLOATS:
        most = (math.isqrt(each * each + 4 * MOST_FLOATS) - each) // 2
        fix = "Codes of all rows on all atoms are held in memory: take fewer atoms, or fewer rows."
        raise refuse("n_atoms", f"be at most {max(most, 0):,} for {n:,} rows of width {d:,}", f"{k:,}", fix)


@dataclass(frozen=True, eq=False)
class _Problem:
    x: Float64[np.ndarray, "n d"]
    lam: float
    signed: bool
    learned_bias: bool
    rounds: int
    tol: float


@dataclass(frozen=True, eq=False)
class _Point:
    atoms: Float64[np.ndarray, "K d"]
    bias: Float64[np.ndarray, " d"]
    codes: Float64[np.ndarray, "n K"]

    def residual(self, x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d"]:
        return x - self.bias - self.codes @ self.atoms


def _one(on: _Problem, k: int, bias: np.ndarray | None, atoms: np.ndarray | None, reseed: bool, seed: int) -> Solution:
    d = on.x.shape[1]
    origin = bias if bias is not None else on.x.mean(0) if on.learned_bias else np.zeros(d)
    if atoms is None:
        r, centred = rng(seed, "solve"), on.x - origin
        size = float(np.abs(centred).max()) or 1.0
        atoms = _unit(centred[r.integers(0, len(centred), k)] + 1e-3 * size * r.standard_normal((k, d)))
    point, history = _descend(on, atoms, origin)
    for _ in range(4 * k + 8 if reseed else 0):
        moved = _reseeded(on, point)
        if moved is None:
            break
        after, more = _descend(on, moved, point.bias)
        if more[-1] >= history[-1] * (1 - 1e-12):
            break
        point, history = after, history + more
    return _certified(on, point, history)


def descend(
    x: Float64[np.ndarray, "n d"],
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    lam: float,
    learned_bias: bool,
    rounds: int,
    tol: float,
) -> tuple[Float64[np.ndarray, "K d"], Float64[np.ndarray, " d"], Float64[np.ndarray, "n K"], list[float]]:
    """Nonnegative codes, atoms, bias, over and over, until a round wins less than tol · loss.

    Returns atoms, bias, codes (optimal for both), and the loss after every round.
    """
    point, history = _descend(_Problem(x, lam, False, learned_bias, rounds, tol), atoms, bias)
    return point.atoms, point.bias, point.codes, history


def _descend(on: _Problem, atoms: np.ndarray, bias: np.ndarray) -> tuple[_Point, list[float]]:
    w, b, z, history = atoms.copy(), bias.copy(), _codes(on, atoms, bias), []
    for _ in range(on.rounds):
        both, cross = z.T @ z, z.T @ (on.x - b)
        for j in range(len(w)):  # Σ_i z_ij (r_i + z_ij w_j), without touching the rows again
            target = cross[j] - both[j] @ w + both[j, j] * w[j]
            size = float(np.linalg.norm(target))
            if size > 0:
                w[j] = target / size
        if on.learned_bias:
            b += (on.x - b - z @ w).mean(0)
        z = _codes(on, w, b)
        history.append(loss(on.x, w, z, b, on.lam))
        if len(history) > 1 and history[-2] - history[-1] <= on.tol * history[-1]:
            break
    return _Point(w, b, z), history


def _codes(on: _Problem, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Optimal codes, (n, K); signed ones as nonnegative codes of w and -w."""
    both, k = np.concatenate([w, -w]) if on.signed else w, len(w)
    found = resolve(on.x, both, b, on.lam, tol=1e-13)
    z = np.zeros((len(on.x), len(both)))
    z[np.repeat(np.arange(len(z)), np.diff(found.indptr)), found.indices] = found.values
    return z[:, :k] - z[:, k:] if on.signed else z


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-300)


def _reseeded(on: _Problem, point: _Point) -> np.ndarray | None:
    """Atoms with one merged or dead one sent to the largest residual; ``None`` when there is nothing to free or win."""
    residual = point.residual(on.x)
    length = np.linalg.norm(residual, axis=1)
    worst = int(length.argmax())
    if length[worst] <= on.lam * (1 + 1e-7):
        return None
    k = len(point.atoms)
    free = np.flatnonzero(np.abs(point.codes).max(0) <= 0).tolist()
    if not free:
        same = duplicates(np.concatenate([point.atoms, -point.atoms]) if on.signed else point.atoms, SAME)
        free = [group[1] % k for group in same]
    if not free:
        return None
    w = point.atoms.copy()
    w[free[0]] = residual[worst] / length[worst]
    return w


def _certified(on: _Problem, point: _Point, history: list[float]) -> Solution:
    x, lam, w, z = on.x, on.lam, point.atoms, point.codes
    residual = point.residual(x)
    products, m = residual @ w.T, np.abs(z).mean(0)
    excess = np.maximum((np.abs(products) if on.signed else products) - lam, 0.0)
    k1 = float(np.where(z != 0, np.abs(products - lam * np.sign(z)), excess).max(initial=0.0)) / lam
    live = m > 0
    moment = (z.T @ residual / len(x))[live] - lam * m[live, None] * w[live]
    k2 = float((np.linalg.norm(moment, axis=1) / (lam * m[live])).max(initial=0.0))
    k3 = float(np.linalg.norm(residual.mean(0))) / lam if on.learned_bias else 0.0
    if on.learned_bias:
        limit = wide_limit(x, lam, tol=1e-12)
        wide = limit.loss - limit.gap
    else:
        wide = universal_bound(x, point.bias, lam)
    longest = float(np.linalg.norm(residual, axis=1).max()) / lam
    return Solution(w, z, point.bias, loss(x, w, z, point.bias, lam), wide, k1, k2, k3, longest, tuple(history))
