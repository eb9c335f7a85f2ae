"""The first-order conditions of a joint optimum, audited in one pass over the rows.

    K1  codes:  ⟨w_k, r_i⟩ = λ where z_ik > 0,  ≤ λ elsewhere
    K2  atoms:  E[z_k r] = λ m_k w_k                                        (feature-residual condition)
    K3  bias:   E[r] = 0                                                    (arXiv 2606.02385)

with r = x - b - zW and m_k = E[z_k]. The feasible set is spheres × orthant × Rᵈ, so these are all of them. Two numbers
put K1 into units of the loss (ours): the duality gap of `lasso`, row by row, bounds what other codes could win, and

    loss_i = ‖x_i - b‖² - ‖z_i W‖² + 2 Σ_k z_ik (λ - ⟨w_k, r_i⟩)

for any codes, where the last sum vanishes with K1. Sums are mergeable: batches and shards add up in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import merged
from monoseme.optimality.wide import huber

__all__ = ["Sums", "atom_residuals", "implied_lam", "outcomes", "sums"]

FLOATS = 1 << 23  # scalar products of rows and atoms held at a time: 64 MB

LARGEST = ("active_worst", "excess", "longest")  # fields of which a merge takes the larger one


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows of everything K1-K3 and the gains need; see `sums`.

    Attributes
    ----------
    n, entries
        Rows, and active entries.
    square, mass, total_bound
        Σ‖r‖², Σ z, Σ h(‖x - b‖).
    residual, moment, by_latent, square_by
        Σ r (d,), Σ z_k r (K, d), Σ z_k and Σ z_k² (K,).
    active_square, active_worst
        K1 on the support: Σ (⟨w, r⟩ - λ)² and the largest |⟨w, r⟩ - λ|.
    violations, excess
        K1 off the support: pairs with ⟨w, r⟩ > λ, and the largest excess.
    antipode
        (K,) Σ (⟨-w_k, r⟩ - λ)₊².
    longest
        Largest ‖r‖.
    signal, explained
        Σ‖x - b‖² and Σ‖zW‖².
    code_gap
        Σ over rows of the duality gap of their codes.
    """

    n: float
    entries: float
    square: float
    mass: float
    total_bound: float
    residual: Float64[np.ndarray, " d"]
    moment: Float64[np.ndarray, "K d"]
    by_latent: Float64[np.ndarray, " K"]
    square_by: Float64[np.ndarray, " K"]
    active_square: float
    active_worst: float
    violations: float
    excess: float
    antipode: Float64[np.ndarray, " K"]
    longest: float
    signal: float
    explained: float
    code_gap: float

    def merge(self, other: Sums) -> Sums:
        """Sums over both samples' rows."""
        return merged(self, other, LARGEST)


def sums(
    x: Float64[np.ndarray, "n d"], codes: Any, atoms: Float64[np.ndarray, "K d"], bias: np.ndarray, lam: float
) -> Sums:
    """Sums over one batch of rows; `codes` is a scipy CSR array (n, K) of nonnegative codes."""
    centred = x - bias
    made = codes @ atoms
    r = centred - made
    step = max(FLOATS // max(len(atoms), 1), 1)
    parts = [_against_atoms(r[i : i + step], codes[i : i + step], atoms, lam) for i in range(0, len(x), step)]
    at = np.concatenate([np.zeros(0), *(part[0] for part in parts)])
    return Sums(
        n=float(len(x)),
        entries=float(codes.nnz),
        square=float(np.square(r).sum()),
        mass=float(codes.sum()),
        total_bound=float(huber(np.linalg.norm(centred, axis=1), lam).sum()),
        residual=r.sum(0),
        moment=np.asarray(codes.T @ r),
        by_latent=np.asarray(codes.sum(0)).ravel(),
        square_by=np.asarray(codes.multiply(codes).sum(0)).ravel(),
        active_square=float(np.square(at).sum()),
        active_worst=float(np.abs(at).max(initial=0.0)),
        violations=float(sum(part[1] for part in parts)),
        excess=float(max((part[2] for part in parts), default=0.0)),
        antipode=sum((part[3] for part in parts), np.zeros(len(atoms))),
        longest=float(np.linalg.norm(r, axis=1).max(initial=0.0)),
        signal=float(np.square(centred).sum()),
        explained=float(np.square(made).sum()),
        code_gap=float(sum(part[4] for part in parts)),
    )


def _against_atoms(
    r: Float64[np.ndarray, "n d"], codes: Any, atoms: Float64[np.ndarray, "K d"], lam: float
) -> tuple[Float64[np.ndarray, " nnz"], int, float, Float64[np.ndarray, " K"], float]:
    """⟨w, r⟩ - λ on the support, violations off it and the largest, what antipodes win, and the sum of the gaps."""
    products = r @ atoms.T
    row, latent = np.repeat(np.arange(len(r)), np.diff(codes.indptr)), codes.indices
    on = products[row, latent]
    top = products.max(1, initial=0.0)
    share = np.where(top > lam, lam / np.maximum(top, lam), 1.0)  # of r that is a point of the dual
    gap = np.square((1 - share) * np.linalg.norm(r, axis=1)).sum() + 2 * float(codes.data @ (lam - share[row] * on))
    other = -lam - products
    antipode = np.square(np.maximum(other, 0.0, out=other)).sum(0)
    products[row, latent] = -np.inf
    products -= lam * (1 + 1e-9)
    return on - lam, int((products > 0).sum()), max(float(products.max(initial=0.0)), 0.0), antipode, gap


def atom_residuals(
    s: Sums, atoms: Float64[np.ndarray, "K d"], lam: float
) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
    """K2 atom by atom, in units of λ m_k: ‖E[z_k r] - λ m_k w_k‖, and its part across w_k; 0 for atoms never active.

    Along w_k it repeats K1; across it, the atom would turn. Lower is better.
    """
    moment, m = s.moment / s.n, s.by_latent / s.n
    along = (atoms * moment).sum(1, keepdims=True) * atoms
    unit = np.divide(1.0, lam * m, out=np.zeros_like(m), where=m > 0)
    whole = np.linalg.norm(moment - lam * m[:, None] * atoms, axis=1)
    return whole * unit, np.linalg.norm(moment - along, axis=1) * unit


def implied_lam(
    m: Float64[np.ndarray, " K"], moment: Float64[np.ndarray, "K d"], atoms: Float64[np.ndarray, "K d"]
) -> float:
    """λ̂ = Σ m_k ⟨w_k, E[z_k r]⟩ / Σ m_k², least squares of K2 along the atoms; NaN when no latent is ever active."""
    power = float(np.square(m).sum())
    return float((m * (atoms * moment).sum(1)).sum()) / power if power > 0 else np.nan


def outcomes(s: Sums, atoms: Float64[np.ndarray, "K d"], lam: float) -> dict[str, Outcome]:
    """K1-K3 as numbers relative to λ (0 at an optimum), and the λ that the dictionary behaves like.

    ``implied_lam``: least squares of K2 along the atoms, Σ m_k ⟨w_k, E[z_k r]⟩ / Σ m_k². Near 0 for a dictionary whose
    codes carry no shrinkage (TopK), negative for one that overshoots.
    """
    n, k = s.n, len(atoms)
    m, moment = s.by_latent / n, s.moment / n
    live = m > 0
    along = (atoms * moment).sum(1)
    off = moment - lam * m[:, None] * atoms
    sideways = moment - along[:, None] * atoms
    scale = lam * float(np.sqrt(np.square(m).sum())) if live.any() else 1.0
    pairs = n * k - s.entries
    made = {
        "k1_active": (np.sqrt(s.active_square / max(s.entries, 1)) / lam, "λ", "codes that are on: rms of ⟨w, r⟩ - λ"),
        "k1_active_worst": (s.active_worst / lam, "λ", "the worst code that is on: largest |⟨w, r⟩ - λ|"),
        "k1_inactive": (s.excess / lam, "λ", "the worst code that is off: largest ⟨w, r⟩ - λ"),
        "k1_violations": (s.violations / max(pairs, 1), "share", "of the codes that are off, those with ⟨w, r⟩ > λ"),
        "k2": (np.linalg.norm(off) / scale, "‖λm‖", "all atoms: ‖E[z r] - λ m w‖"),
        "k2_tangent": (np.linalg.norm(sideways) / scale, "‖λm‖", "the part of it that turns atoms"),
        "k2_worst": (atom_residuals(s, atoms, lam)[0].max(initial=0.0), "λm", "the worst atom: ‖E[z r] - λ m w‖"),
        "k3": (np.linalg.norm(s.residual / n) / lam, "λ", "bias: ‖E r‖"),
        "longest_residual": (s.longest / lam, "λ", "largest ‖r‖; at most 1 with K1-K3 proves a global optimum"),
    }
    found = {
        name: Outcome(name, float(value), unit, better="lower", note=note) for name, (value, unit, note) in made.items()
    }
    loss = (s.square + 2 * lam * s.mass) / n
    defect = abs(loss - (s.signal - s.explained) / n) / loss if loss > 0 else 0.0
    note = "|loss - (E‖x - b‖² - E‖zW‖²)| ÷ loss; 0 with K1"
    found["loss_identity"] = Outcome("loss_identity", defect, "1", better="lower", note=note)
    note = "loss that other codes on these atoms could still win, at most"
    found["code_gap"] = Outcome("code_gap", s.code_gap / n, "‖x‖²", better="lower", note=note)
    if live.any():
        implied = implied_lam(m, moment, atoms)
        found["implied_lam"] = Outcome("implied_lam", implied, "‖x‖", note="λ that K2 reads from codes and residuals")
    else:
        found["implied_lam"] = unknown("implied_lam", "‖x‖", "no latent is ever active")
    return found
