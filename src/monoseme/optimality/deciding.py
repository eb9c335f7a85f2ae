"""From bounds of D_j to a verdict: what the rows prove, and what a sample may say of the population.

About these rows:        stable when D_up ≤ tolerance · ‖g‖, unstable with a certificate β, else unknown.
About the population:    the same proofs, found on some rows, must hold on others. A certificate counts when its γ,
                         with β and β₀ fixed, is positive on held-out rows (one-sided, 95 %), and the share of rows on
                         which it would need a negative code is at most `leak` at 95 % confidence (no violator among n:
                         at most 3/n). What lies within the noise of the means (`noise_floor`) and is not proven either
                         way is unknown, never stable: at a thousand features that noise exceeds a strict pair's D_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64

from monoseme.optimality.bounds import Direction, Weights
from monoseme.optimality.certification import Verdict, Witness
from monoseme.optimality.columns import Columns
from monoseme.optimality.hull import Hull
from monoseme.optimality.latents import Latents

__all__ = ["About", "Decision", "decide", "noise_floor", "objection"]

About = Literal["rows", "population"]
ONE_SIDED = 1.645  # normal quantile of 95 %


@dataclass(frozen=True, eq=False)
class Decision:
    """A verdict with its bounds and its proof."""

    verdict: Verdict
    why: str
    lower: float
    upper: float
    guaranteed: float  # removable loss ÷ λ
    partners: tuple[int, ...]
    witness: Witness | None
    step: float = 0.0


def noise_floor(hull: Hull, j: int, g: Float64[np.ndarray, " K"]) -> float:
    """√Σ_k (1 - c_jk)² Var(z_k) / (n m_k): how far the means m_k themselves are known (ours).

    With it a D_j of this size is what a stable feature shows on n rows.
    """
    by, n = hull.by, hull.latents.n_rows
    variance = np.maximum(by.square - np.square(by.mass), 0.0)
    # (1 - c)² / m = (g / √m)² / m, and g carries √m already
    return float(np.sqrt((np.square(g * hull.scale) * variance * np.square(hull.scale)).sum() / n))


def held_out_leak(shown: Direction | Witness, held: Latents, held_by: Columns, j: int) -> tuple[int, int, float]:
    """Violators, rows where j is off, and the 95 % upper bound of the violating share (Clopper-Pearson)."""
    from scipy.stats import beta

    full = np.zeros(held.n_latents)
    full[shown.index] = shown.weight
    off = np.ones(held.n_rows, bool)
    off[held_by.of(j)[0]] = False
    moved = _by_row(full, held)[off] + shown.offset
    size = float(np.abs(shown.weight).max(initial=0.0)) or 1.0
    bad, n = int((moved > 1e-9 * size).sum()), len(moved)
    return bad, n, 1.0 if bad >= n else float(beta.ppf(0.95, bad + 1, n - bad))


def held_out_gain(shown: Direction | Witness, held: Latents, j: int) -> float:
    """Lower 95 % bound of γ on held-out rows, with β and β₀ fixed: the mean of Σ_k β_k (1 - c_jk) z_ik + β₀ over rows.

    Rows count as independent. No noise of latents that β does not touch is in it.
    """
    full = np.zeros(held.n_latents)
    full[shown.index] = shown.weight * (1 - held.atoms[shown.index] @ held.atoms[j])
    row = _by_row(full, held) + shown.offset
    return float(row.mean() - ONE_SIDED * row.std(ddof=1) / np.sqrt(len(row))) if len(row) > 1 else -np.inf


def objection(shown: Direction | Witness, held: Latents, held_by: Columns, j: int, leak: float = 0.01) -> str:
    """What held-out rows say against a certificate of feature j; empty when nothing."""
    bad, n, most = held_out_leak(shown, held, held_by, j)
    if most > leak:
        return f"held-out rows speak against the certificate: {bad:,} of {n:,} (at most {leak:.1%} may)"
    if held_out_gain(shown, held, j) <= 0:
        return "on held-out rows the gain of the certificate is not above 0 at 95 %"
    return ""


def _by_row(direction: Float64[np.ndarray, " K"], held: Latents) -> Float64[np.ndarray, " n"]:
    """⟨direction, z_i⟩ on every row."""
    from monoseme.optimality import loops

    out = np.empty(held.n_rows)
    rows = np.arange(held.n_rows)
    loops.scores(rows, held.indptr, held.indices, np.asarray(held.values, np.float64), direction, out)
    return out


def decide(
    hull: Hull,
    j: int,
    about: About = "rows",
    held: tuple[Latents, Columns] | None = None,
    leak: float = 0.01,
    slack: tuple[float, float] = (np.inf, 0.0),
    hint: int = -1,
) -> Decision:
    """Verdict on feature j. `slack`: bound and sum of that certificate, if computed; `hint`: a suspected partner."""
    if hull.by.mass[j] <= 0:
        return Decision("unknown", "it is never active on these rows", 0.0, np.inf, 0.0, (), None)
    g = hull.target(j)
    tol = hull.settings.tolerance * float(np.linalg.norm(g))
    floor = noise_floor(hull, j, g) if about == "population" else 0.0
    if slack[0] <= tol:
        return _stable(slack[0], Witness("slack", np.zeros(0, np.int64), np.zeros(0), slack[1]))
    weights, direction = hull.decide(j, hint=hint)
    upper = np.inf if weights is None else weights.distance
    if weights is not None and upper <= tol:
        return _stable(upper, _of_weights(weights))
    if direction is None:
        why = "the steps ended before either side was proven"
        why += "; what is missing is within the noise of the means" if upper <= floor else ""
        return Decision("unknown", why, 0.0, upper, 0.0, (), None)
    return _outside(hull, j, direction, upper, held, leak)


def _of_weights(weights: Weights) -> Witness:
    if weights.tilt is None:
        return Witness("rows", weights.rows, weights.weight, weights.even)
    index = np.flatnonzero(weights.tilt)
    return Witness("tilt", index, weights.tilt[index], weights.even)


def _stable(distance: float, witness: Witness) -> Decision:
    return Decision("stable", "the condition holds on these rows", 0.0, distance, 0.0, (), witness)


def _outside(
    hull: Hull,
    j: int,
    direction: Direction,
    upper: float,
    held: tuple[Latents, Columns] | None,
    leak: float,
) -> Decision:
    lower = direction.bound
    shown = hull.sparsest(j, direction)
    against = "" if held is None else objection(shown, *held, j, leak)
    if against:
        return Decision("unknown", against, lower, upper, 0.0, (), None)
    share = shown.weight * hull.root[shown.index] * hull.target(j)[shown.index]
    order = np.argsort(-np.abs(share))
    partners = tuple(int(k) for k in shown.index[order][:8])
    witness = Witness("beta", shown.index, shown.weight, shown.offset)
    return Decision(
        "unstable", _words(hull, j, shown, partners), lower, upper, shown.guaranteed, partners, witness, shown.step
    )


def _words(hull: Hull, j: int, direction: Direction, partners: tuple[int, ...]) -> str:
    """How a certificate reads."""
    if not partners:
        return "it is never off: the bias can take its place"
    weight = dict(zip(direction.index.tolist(), direction.weight.tolist(), strict=True))
    first = partners[0]
    together = len(np.intersect1d(hull.by.of(j)[0], hull.by.of(first)[0])) / max(len(hull.by.of(first)[0]), 1)
    if weight[first] < 0:
        return f"{first} holds too much of it and would release it (both are on in {together:.1%} of {first}'s rows)"
    if len(partners) == 1:
        return f"{first} would absorb it: {together:.1%} of the rows of {first} are rows of it too"
    named = ", ".join(str(k) for k in partners[:3])
    return f"{named} would split it among them ({together:.1%} of the rows of {first} are rows of it too)"
