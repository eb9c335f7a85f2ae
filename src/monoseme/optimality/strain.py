"""Strain: how far below zero the residual must reach where a feature is off, in units of λ.

At an optimum the weights of condition (H) are the slacks s_i = 1 - ⟨w_j, r_i⟩/λ of the rows where j is off, so a bound
s_i ≤ κ makes (H) a statement about sums instead of extreme rows. The least κ_j of any weights is the strain. It is at
least (ours; valid for any dictionary)

    κ_j ≥ 1 / (1 - p_j)          and          κ_j ≥ κ_jk = (1 - c_jk) / (1 - ρ_jk),     ρ_jk = E[z_k 1{z_j > 0}] / m_k

The first needs a learned bias; with a fixed one, 1 says nothing.

ρ_jk is the share of k's activity that lies where j is on. A strict hierarchy, ρ = 1, has infinite strain: no optimum
can hold both atoms apart. No strain at all: c_jk = ρ_jk.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.optimality.columns import Columns
from monoseme.optimality.latents import Latents

__all__ = ["Strains", "child_tilt", "pair_tilt", "soft_certificate", "strains"]

FLOATS = 1 << 22  # cosines a thread holds at a time: 32 MB
FEW = 10  # samples with a leak below which an interval for its mean would be too good


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
    """Largest lower bound of κ_j for every latent. Time Σ_j (active rows) · L0, and the K² cosines; no K x K table."""
    from monoseme.optimality import loops

    k = latents.n_latents
    value, partner = np.ones(k), np.full(k, -1, np.int64)
    many = threads or os.cpu_count() or 1
    # as many entries for every thread, not as many features; then at most `rows` cosines at a time
    rows = max(FLOATS // max(k, 1), 1)
    ends = np.searchsorted(by.indptr, np.linspace(0, by.indptr[-1], 4 * many + 1)[1:-1]).clip(0, k)
    cuts = np.unique(np.concatenate([[0, k], ends, np.arange(0, k, rows)])).tolist()

    def part(low: int, high: int) -> None:
        cosines = latents.atoms[low:high] @ latents.atoms.T
        codes = (latents.indptr, latents.indices, latents.values, by.mass, cosines)
        loops.strains(low, high, by.indptr, by.rows, *codes, latents.learned_bias, value, partner)

    with ThreadPoolExecutor(many) as pool:
        for done in [pool.submit(part, a, b) for a, b in itertools.pairwise(cuts)]:
            done.result()
    return Strains(value, partner)


def soft_certificate(
    latents: Latents,
    by: Columns,
    j: int,
    index: Int64[np.ndarray, " s"],
    weight: Float64[np.ndarray, " s"],
    offset: float,
    kappa: float,
    sample: Int64[np.ndarray, " n"] | None = None,
) -> Outcome:
    """Whether a direction β, β₀ proves that feature j has a strain above κ, as a mean over rows with its interval.

        γ_κ = Σ_k β_k m_k (1 - c_jk) + β₀ - κ E[1{z_j = 0} (⟨β, z⟩ + β₀)₊]                          (ours)

    γ_κ > 0 means that no weights within [0, κ] fulfil (H): the dual of the linear programme of κ_j. No row has the last
    word, unlike in the certificate of the hull (κ → ∞). Take β from other rows, or the interval is too good.

    Parameters
    ----------
    latents, by
        Codes of the rows to judge on, and their columns.
    j
        The feature; β must not touch it.
    index, weight, offset
        β over other latents, and β₀ (0 with a fixed bias).
    kappa
        κ ≥ 0.
    sample
        (n,) which rows belong together (documents, pictures). Rows count as independent without.

    Returns
    -------
    Outcome
        γ_κ with its 95 % interval (Student's t over samples), units of the code. Proven when `low` is above 0. No
        interval where fewer than `FEW` samples have (⟨β, z⟩ + β₀) > 0 off j: the leak that κ weighs was hardly seen.
    """
    if (index == j).any():
        raise refuse("index", f"leave out feature {j} itself", "it is in", "β lives on the other latents.")
    if not kappa >= 0:
        raise refuse("kappa", "be at least 0", kappa, "It bounds the strain of the feature.")
    if offset != 0 and not latents.learned_bias:
        raise refuse("offset", "be 0 with a fixed bias", offset, "β₀ moves the bias.")
    from scipy.sparse import csr_array
    from scipy.stats import t

    beta, cost = np.zeros(latents.n_latents), np.zeros(latents.n_latents)
    beta[index], cost[index] = weight, weight * (1 - latents.atoms[index] @ latents.atoms[j])
    n = latents.n_rows
    z = csr_array((latents.values, latents.indices, latents.indptr), shape=(n, latents.n_latents))
    over = np.maximum(z @ beta + offset, 0.0)
    over[by.of(j)[0]] = 0.0
    each = z @ cost + offset - kappa * over
    _, owner = np.unique(np.arange(n) if sample is None else sample, return_inverse=True)
    sizes, totals = np.bincount(owner).astype(float), np.bincount(owner, weights=each)
    m, mean = len(sizes), float(each.mean())
    seen = len(np.unique(owner[over > 0]))
    unit = "rows" if sample is None else "samples"
    note = f"above 0: feature {j} cannot be held with a strain of {kappa:g}"
    if m < 2 or (seen < FEW and kappa > 0):
        note += f"; no interval, {seen} of {m:,} {unit} show a leak"
        return Outcome("soft_certificate", mean, "‖x‖", n=m, n_unit=unit, note=note)
    # variance of a ratio of sums over samples
    spread = float(np.sqrt(m / (m - 1) * np.square(totals - mean * sizes).sum()) / n) * float(t.ppf(0.975, m - 1))
    return Outcome("soft_certificate", mean, "‖x‖", mean - spread, mean + spread, n=m, n_unit=unit, note=note)


def pair_tilt(lam: float, both: float, only_child: float, only_parent: float, child: float, parent: float) -> float:
    """Cosine that two orthogonal parts end at when λ is small, from how often they come together (ours; fixed bias).

    λ P₁₁ (1 / (P₀₁ z̄_k) + 1 / (P₁₀ z̄_j)): `both` P₁₁ is the share of rows with both on, `only_child` P₀₁ and
    `only_parent` P₁₀ those with one alone; `child` z̄_k and `parent` z̄_j their magnitudes (where these vary,
    E[z² | alone] ÷ E[z | together]). First order in λ: an answer of order 1 says that the law does not hold there.
    """
    return lam * both * (1 / (only_child * child) + 1 / (only_parent * parent))


def child_tilt(lam: float, both: float, alone: float, magnitude: float) -> float:
    """Sine of the angle by which a child's atom leans towards its parent at a small λ (ours; fixed bias).

    λ p₁₂ / (q z̄ + λ (p₁₂ + q)): `both` p₁₂ is the share of rows with both on, `alone` q the share with the child only,
    `magnitude` z̄ the child's mean code when on. At an answer of order 1 the optimum jumps to full absorption.
    """
    return lam * both / (alone * magnitude + lam * (both + alone))
