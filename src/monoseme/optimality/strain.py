"""Strain: how far below zero the residual must reach where a feature is off, in units of λ.

At an optimum the weights of condition (H) are the slacks s_i = 1 - ⟨w_j, r_i⟩/λ of the rows where j is off, so a bound
s_i ≤ κ makes (H) a statement about sums instead of extreme rows. The least κ_j of any weights is the strain. It is at
least (ours; valid for any dictionary)

    κ_j ≥ 1 / (1 - p_j)          and          κ_jk ≥ (1 - c_jk) / (1 - ρ_jk),     ρ_jk = E[z_k 1{z_j > 0}] / m_k

ρ_jk is the share of k's activity that lies where j is on. A strict hierarchy, ρ = 1, has infinite strain: no optimum
can hold both atoms apart. No strain at all: c_jk = ρ_jk.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.optimality.columns import Columns
from monoseme.optimality.latents import Latents

__all__ = ["Strains", "child_tilt", "strains"]


@dataclass(frozen=True, eq=False)
class Strains:
    """Lower bounds of the strain, one a latent, and where each comes from.

    Attributes
    ----------
    value
        (K,), at least 1; lower is better; infinite for a strict hierarchy, or where the feature is never off.
    partner
        (K,) the latent of the largest pair strain; -1 where it is the feature's own density.
    """

    value: Float64[np.ndarray, " K"]
    partner: Int64[np.ndarray, " K"]


def strains(latents: Latents, by: Columns, threads: int | None = None) -> Strains:
    """Largest lower bound of κ_j for every latent. Time Σ_j (active rows) · L0; no K x K table."""
    from monoseme.optimality import loops

    k = latents.n_latents
    value, partner = np.ones(k), np.full(k, -1, np.int64)
    many = threads or os.cpu_count() or 1
    # as many entries for every thread, not as many features
    cuts = np.searchsorted(by.indptr, np.linspace(0, by.indptr[-1], 4 * many + 1)).clip(0, k)
    cuts[0], cuts[-1] = 0, k
    codes = (latents.indptr, latents.indices, np.asarray(latents.values, np.float64))

    def part(low: int, high: int) -> None:
        loops.strains(low, high, by.indptr, by.rows, *codes, by.mass, latents.atoms, value, partner)

    with ThreadPoolExecutor(many) as pool:
        for done in [pool.submit(part, int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]:
            done.result()
    return Strains(value, partner)


def child_tilt(lam: float, both: float, alone: float, magnitude: float) -> float:
    """Sine of the angle by which a child's atom leans towards its parent at a small λ (ours; fixed bias).

    λ p₁₂ / (q z̄ + λ (p₁₂ + q)): `both` p₁₂ is the share of rows with both on, `alone` q the share with the child only,
    `magnitude` z̄ the child's mean code when on. At an answer of order 1 the optimum jumps to full absorption.
    """
    return lam * both / (alone * magnitude + lam * (both + alone))
