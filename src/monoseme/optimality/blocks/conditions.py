"""The first-order conditions of a joint optimum for blocks, audited in one pass over the rows.

    K1  codes:   r D_gᵀ = λ u_g where block g is on,  ‖r D_gᵀ‖ ≤ λ elsewhere          u_g = z_g / ‖z_g‖
    K2  frames:  E[z_gᵀ r] = λ Σ_g D_g                                               Σ_g = E[z_gᵀ z_g / ‖z_g‖]
    K3  bias:    E[r] = 0

with r = x - b - Σ z_g D_g (ours). Inside the span K2 follows from K1; E[z_gᵀ r](I - D_gᵀ D_g) = 0 is new. K1 and K3
together imply the balance law  p_g ‖ū_g‖ ≤ 1 - p_g  for p_g = P(g on), ū_g = E[u_g | g on]: a block that is on more
than half of the time has spread directions. Where it is broken, the bias can be moved for a gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.rows import RowSource
from monoseme.core.stats import merged
from monoseme.optimality.blocks.frames import Blocks, batches
from monoseme.optimality.wide import huber

__all__ = ["Sums", "audit", "balance", "code_gap", "outcomes", "sums"]

LARGEST = ("active_worst", "excess", "longest")  # fields of which a merge takes the larger one


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows of everything that K1-K3 need; see `sums`.

    Attributes
    ----------
    n, entries
        Rows, and blocks that are on.
    square, mass, bound, gap
        Σ‖r‖², Σ‖z_g‖, Σ h(‖x - b‖), Σ duality gap of the codes.
    residual, pull, spread, direction, count
        Σ r (d,), Σ z_gᵀ r (G, b, d), Σ z_gᵀ z_g / ‖z_g‖ (G, b, b), Σ u_g (G, b), rows on which g is on (G,).
    active_square, active_worst
        K1 where blocks are on: Σ ‖r D_gᵀ - λ u_g‖², and the largest ‖·‖.
    violations, excess, again
        K1 elsewhere: pairs with ‖r D_gᵀ‖ > λ, the largest excess, and Σ (‖r D_gᵀ‖ - λ)₊² by block (G,).
    longest
        Largest ‖r‖.
    """

    n: float
    entries: float
    square: float
    mass: float
    bound: float
    gap: float
    residual: Float64[np.ndarray, " d"]
    pull: Float64[np.ndarray, "G b d"]
    spread: Float64[np.ndarray, "G b b"]
    direction: Float64[np.ndarray, "G b"]
    count: Float64[np.ndarray, " G"]
    active_square: float
    active_worst: float
    violations: float
    excess: float
    again: Float64[np.ndarray, " G"]
    longest: float

    def merge(self, other: Sums) -> Sums:
        """Sums over both samples' rows."""
        return merged(self, other, LARGEST)


def code_gap(
    x: Float64[np.ndarray, "n d"],
    r: Float64[np.ndarray, "n d"],
    mass: Float64[np.ndarray, " n"],
    largest: Float64[np.ndarray, " n"],
    lam: float,
) -> Float64[np.ndarray, " n"]:
    """How far each row's codes are from the best on these frames, at most; units of ‖x‖² (0 is optimal).

    `x` has the bias taken off, `mass` is Σ_g ‖z_g‖, `largest` is max_g ‖r D_gᵀ‖. With θ = r min(1, λ / largest) no
    codes reach below ‖x‖² - ‖x - θ‖² (the dual of the group lasso).
    """
    theta = r * np.minimum(1.0, lam / np.maximum(largest, lam))[:, None]
    dual = np.square(x).sum(1) - np.square(x - theta).sum(1)
    return np.square(r).sum(1) + 2 * lam * mass - dual


def sums(x: Float64[np.ndarray, "n d"], blocks: Blocks, lam: float, start: int = 0) -> Sums:
    """Sums over one batch of rows, the first of which has number `start`."""
    shape = (len(x), blocks.n_blocks, blocks.size)
    part = slice(int(blocks.indptr[start]), int(blocks.indptr[start + len(x)]))
    row, g, z, norm = blocks.rows[part] - start, blocks.indices[part], blocks.values[part], blocks.norms[part]
    r = blocks.residual(x, start)
    products = (r @ blocks.directions.T).reshape(shape)
    strength = np.sqrt(np.einsum("ngb,ngb->ng", products, products))
    u = z / norm[:, None]
    off_by = np.square(products[row, g] - lam * u).sum(1)
    mass = np.bincount(row, weights=norm, minlength=len(x)).astype(np.float64)  # integers when there are none
    gap = code_gap(x - blocks.bias, r, mass, strength.max(1), lam)
    strength[row, g] = 0.0
    beyond = strength - lam * (1 + 1e-9)
    length = np.linalg.norm(r, axis=1)
    return Sums(
        n=float(len(x)),
        entries=float(len(row)),
        square=float(np.square(r).sum()),
        mass=float(norm.sum()),
        bound=float(huber(np.linalg.norm(x - blocks.bias, axis=1), lam).sum()),
        gap=float(np.maximum(gap, 0.0).sum()),
        residual=r.sum(0),
        pull=_pull(r, blocks, part, row),
        spread=_by_block(g, z[:, :, None] * u[:, None, :], blocks.n_blocks),
        direction=_by_block(g, u, blocks.n_blocks),
        count=np.bincount(g, minlength=blocks.n_blocks).astype(np.float64),
        active_square=float(off_by.sum()),
        active_worst=float(np.sqrt(off_by.max(initial=0.0))),
        violations=float((beyond > 0).sum()),
        excess=float(max(beyond.max(initial=0.0), 0.0)),
        again=np.square(np.maximum(strength - lam, 0.0)).sum(0),
        longest=float(length.max(initial=0.0)),
    )


def audit(rows: np.ndarray | Tensor | RowSource, blocks: Blocks, lam: float) -> Sums:
    """`sums` over all rows, a batch at a time."""
    total: Sums | None = None
    for start, x in batches(rows, len(blocks.directions)):
        part = sums(x, blocks, lam, start)
        total = part if total is None else total.merge(part)
    assert total is not None
    return total


def _pull(r: np.ndarray, blocks: Blocks, part: slice, row: np.ndarray) -> Float64[np.ndarray, "G b d"]:
    """Σ z_gᵀ r over the entries of a batch."""
    from scipy.sparse import csr_array

    b, g = blocks.size, blocks.indices[part].astype(np.int64)
    column = (g[:, None] * b + np.arange(b)).ravel()
    shape = (len(r), blocks.n_blocks * b)
    codes = csr_array((blocks.values[part].ravel(), (np.repeat(row, b), column)), shape=shape)
    return np.asarray(codes.T @ r).reshape(blocks.frames.shape)


def _by_block(g: np.ndarray, values: np.ndarray, n_blocks: int) -> np.ndarray:
    flat = values.reshape(len(g), int(np.prod(values.shape[1:])))
    sums = [np.bincount(g, weights=flat[:, c], minlength=n_blocks) for c in range(flat.shape[1])]
    return np.stack(sums, 1).reshape(n_blocks, *values.shape[1:]).astype(np.float64)


def balance(s: Sums) -> Float64[np.ndarray, " G"]:
    """p_g ‖ū_g‖ - (1 - p_g) of every block: at most 0 where K1 and K3 hold; above 0 the bias should move."""
    return np.linalg.norm(s.direction, axis=1) / s.n - (1 - s.count / s.n)


def outcomes(
    s: Sums, frames: Float64[np.ndarray, "G b d"], lam: float, learned_bias: bool = True
) -> dict[str, Outcome]:
    """K1-K3 as numbers relative to λ (0 at an optimum), the balance law, the gap of the codes, the λ they behave like.

    ``implied_lam``: least squares of K2 inside the spans, Σ ⟨Σ_g, E[z_gᵀ r] D_gᵀ⟩ / Σ ‖Σ_g‖². Near 0 where codes carry
    no shrinkage (TopK), negative where they overshoot.
    """
    n, pairs = s.n, s.n * len(frames) - s.entries
    spread, pull = s.spread / n, s.pull / n
    inside = pull @ frames.transpose(0, 2, 1)
    size = float(np.linalg.norm(spread))
    scale = lam * size if size > 0 else 1.0
    loss = (s.square + 2 * lam * s.mass) / n
    turn = np.linalg.norm(pull - inside @ frames)
    made = {
        "k1_active": (
            np.sqrt(s.active_square / max(s.entries, 1)) / lam,
            "λ",
            "blocks that are on: rms of ‖rDᵀ - λu‖",
        ),
        "k1_inactive": (s.excess / lam, "λ", "the worst block that is off: largest ‖rDᵀ‖ - λ"),
        "k1_violations": (s.violations / max(pairs, 1), "share", "of the blocks that are off, those with ‖rDᵀ‖ > λ"),
        "k2": (np.linalg.norm(pull - lam * spread @ frames) / scale, "‖λΣ‖", "all frames: ‖E[zᵀr] - λΣD‖"),
        "k2_tangent": (turn / scale, "‖λΣ‖", "the part of it that turns spans"),
        "code_gap": (
            s.gap / n / max(loss, 1e-300),
            "share",
            "of the loss, what better codes on these frames win at most",
        ),
        "longest_residual": (s.longest / lam, "λ", "largest ‖r‖; at most 1 with K1-K3 proves a global optimum"),
    }
    if learned_bias:
        made["k3"] = (np.linalg.norm(s.residual / n) / lam, "λ", "bias: ‖E r‖")
        over = float(balance(s).max(initial=-1.0))
        made["balance"] = (max(over, 0.0), "1", "largest p‖ū‖ - (1 - p); above 0 a bias can be moved for a gain")
    found = {
        name: Outcome(name, float(value), unit, better="lower", note=note) for name, (value, unit, note) in made.items()
    }
    if size > 0:
        implied = float((spread * inside).sum() / size**2)
        found["implied_lam"] = Outcome("implied_lam", implied, "‖x‖", note="λ that K2 reads from codes and residuals")
    else:
        found["implied_lam"] = unknown("implied_lam", "‖x‖", "no block is ever on")
    return found
