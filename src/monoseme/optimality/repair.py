"""Repair: certificates carried out as edits. Reconstructions stay as they are, the loss falls by what was guaranteed.

For an unstable j with witness β, β₀ and a step e: w_k ← (w_k + e β_k w_j)/n_k, z_k ← n_k z_k (n_k the norm before
division), z_j ← z_j - e (⟨β, z⟩ + β₀), b ← b + e β₀ w_j. Then, if wanted, codes and atoms are refitted. An edit with β₀
< 0 switches j on, a little, on rows where it was off: the L1 loss falls all the same, L0 rises until codes are
refitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.optimality import reading
from monoseme.optimality.certification import FeatureCertificate
from monoseme.optimality.certify import CertifySettings, certify_latents
from monoseme.optimality.latents import Latents
from monoseme.optimality.solve import descend
from monoseme.optimality.wide import check_lam

__all__ = ["Edit", "Repair", "apply", "repair"]

MOST_CODES = 1 << 28


@dataclass(frozen=True)
class Edit:
    """One certificate carried out: the feature, what it promised and what came."""

    feature: int
    words: str
    promised: float
    gained: float
    l0: float


@dataclass(frozen=True, eq=False)
class Repair:
    """The dictionary after the edits.

    Attributes
    ----------
    atoms, codes, bias
        As given, edited, and refitted when asked for.
    before, edited, after
        Loss as given, after all edits, and after the refit (equal to `edited` without one).
    edits
        In the order in which they were made.
    """

    atoms: Float64[np.ndarray, "K d"]
    codes: Float64[np.ndarray, "n K"]
    bias: Float64[np.ndarray, " d"]
    before: float
    edited: float
    after: float
    edits: tuple[Edit, ...]

    def table(self) -> str:
        """Text: what changed, in words, one line an edit."""
        lines = [f"loss {self.before:.6g} → {self.edited:.6g} by {len(self.edits)} edits → {self.after:.6g} refitted"]
        lines += [f"{edit.words} (gained {edit.gained:.3g}, promised {edit.promised:.3g})" for edit in self.edits]
        return "\n".join(lines)


def apply(
    atoms: Float64[np.ndarray, "K d"],
    codes: Float64[np.ndarray, "n K"],
    bias: Float64[np.ndarray, " d"],
    feature: FeatureCertificate,
    step: float,
) -> tuple[Float64[np.ndarray, "K d"], Float64[np.ndarray, "n K"], Float64[np.ndarray, " d"]]:
    """Carry out the edit of one unstable feature with step e; the reconstruction does not change."""
    j, witness = feature.feature, feature.witness
    assert witness is not None
    w, z, index = atoms.copy(), codes.copy(), witness.index
    z[:, j] = np.maximum(codes[:, j] - step * (codes[:, index] @ witness.weight + witness.offset), 0.0)
    w[index] += step * witness.weight[:, None] * atoms[j]
    norm = np.linalg.norm(w[index], axis=1)
    # an antipode that is moved onto nothing stays where it was, and is silent
    gone = norm <= 1e-12
    w[index] = np.where(gone[:, None], atoms[index], w[index] / np.where(gone, 1.0, norm)[:, None])
    norm[gone] = 0.0
    z[:, index] *= norm
    return w, z, bias + step * witness.offset * atoms[j]


def repair(
    x: np.ndarray | Tensor,
    atoms: np.ndarray | Tensor,
    codes: object,
    bias: Float64[np.ndarray, " d"],
    lam: float,
    *,
    learned_bias: bool = True,
    edits: int = 20,
    refit: int = 50,
    settings: CertifySettings | None = None,
) -> Repair:
    """Make the best edits one after another, each certified anew, then refit.

    Parameters
    ----------
    x, atoms, codes, bias, lam, learned_bias
        As in `certify`; codes must be nonnegative, and n · K at most 2²⁸.
    edits
        At most so many; fewer when no feature is unstable any more.
    refit
        Rounds of exact block steps on codes, atoms and bias afterwards; 0 for the edits alone.
    settings
        Effort of every certification.
    """
    rows, lam = reading.as_matrix(x, "x"), check_lam(lam)
    w = reading.as_matrix(atoms, "atoms", rows.shape[1])
    if len(rows) * len(w) > MOST_CODES:
        raise refuse("x", f"have n · K at most {MOST_CODES:,}", len(rows) * len(w), "Repair on fewer rows.")
    for name, value in (("edits", edits), ("refit", refit)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refuse(name, "be a whole number, at least 0", repr(value), "0 makes none.")
    latents = reading.latents(w, bias, reading.as_code(codes, len(rows), len(w)), learned_bias)
    if latents.n_latents != len(w):
        raise refuse("codes", "be nonnegative", "negative ones", "Split signed codes into two atoms ±w first.")
    chosen = settings or CertifySettings(slack=False, splits=False, wide=False)
    w, b, z = latents.atoms, latents.bias, _dense(latents)
    before = now = _loss(rows, w, z, b, lam)
    made: list[Edit] = []
    while len(made) < edits:
        best = _best(rows, w, z, b, lam, learned_bias, chosen)
        if best is None:
            break
        w, z, b = apply(w, z, b, best, best.step)
        new = _loss(rows, w, z, b, lam)
        made.append(Edit(best.feature, best.words, best.removable_loss, now - new, float((z > 0).sum(1).mean())))
        now = new
    edited = now
    if refit:
        w, b, z, history = descend(rows, w, b, lam, learned_bias, refit, 1e-7)
        now = min(now, history[-1])
    return Repair(w, z, b, before, edited, now, tuple(made))


def _best(rows, w, z, b, lam, learned_bias, settings) -> FeatureCertificate | None:
    import torch

    from monoseme.core.code import Code

    code = Code.from_dense(torch.from_numpy(z).unsqueeze(-1))

    def batches() -> Iterator[np.ndarray]:
        yield rows

    found = certify_latents(batches, reading.latents(w, b, code, learned_bias), lam, settings)
    best = max(found.features, key=lambda feature: feature.removable_loss)
    return best if best.removable_loss > 1e-9 * (found.loss.value or 0.0) else None


def _dense(latents: Latents) -> Float64[np.ndarray, "n K"]:
    z = np.zeros((latents.n_rows, latents.n_latents))
    z[np.repeat(np.arange(latents.n_rows), np.diff(latents.indptr)), latents.indices] = latents.values
    return z


def _loss(x, w, z, b, lam) -> float:
    return float(np.square(x - b - z @ w).sum(1).mean() + 2 * lam * z.sum(1).mean())
