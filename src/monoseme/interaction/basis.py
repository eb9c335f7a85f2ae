"""An AGOP seen in a featurizer's basis: which blocks the network downstream uses, and which it uses together.

With atoms D_g (b, d) and G (d, d), all of these are entries or sums of D G Dᵀ, which is never formed:

    sensitivity of block g      tr(D_g G D_gᵀ)                  mean squared change of the outputs along its directions
    interaction of block g      Σ_{h≠g} ‖D_g G D_hᵀ‖_F²         energy that it shares with the other blocks
    off-block energy            Σ_g of these,  ÷ ‖D G Dᵀ‖_F²    0 where blocks act on the outputs apart

‖D_g G Dᵀ‖_F² is tr(D_g G S G D_gᵀ) with S = DᵀD, so the work is d² for each atom. Squares of a mean are too large; with
sums over groups of samples, products of *different* groups are not, and leaving out one group gives standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.matrix import Agop

__all__ = ["BlockEnergies", "block_energies"]

FEWEST = 8  # groups that a standard error needs
PIECE = 512  # blocks at once


@dataclass(frozen=True, eq=False)
class BlockEnergies:
    """Numbers of every block, and of all of them.

    Attributes
    ----------
    sensitivity, sensitivity_error
        tr(D_g G D_gᵀ), (outputs per unit of the code)², with its standard error over samples (NaN: not known).
    relative
        Sensitivity ÷ that of a random block of the same length, ‖D_g‖² tr(G)/d: above 1 the network listens to it more
        than to a random direction.
    interaction
        Off-block energy of its row, unbiased over samples where their sums are known; it may then fall below 0.
    off_block, off_block_ratio
        Of all blocks; and ÷ ‖D G Dᵀ‖². Neither direction is better; read the ratio beside `rotated_ratio`.
    rotated_ratio
        The mean ratio of the same dictionary turned at random against G: what the basis alone brings about.
    """

    sensitivity: Float64[np.ndarray, " G"]
    sensitivity_error: Float64[np.ndarray, " G"]
    relative: Float64[np.ndarray, " G"]
    interaction: Float64[np.ndarray, " G"]
    off_block: Outcome
    off_block_ratio: Outcome
    rotated_ratio: Outcome

    def card(self, block: int) -> tuple[Outcome, ...]:
        """Sensitivity and interaction of one block, as its card shows them."""
        error = float(self.sensitivity_error[block])
        said = f"{self.relative[block]:.3g} × a random block's" + (
            f"; standard error {error:.2g}" if np.isfinite(error) else ""
        )
        reach = 1.96 * error if np.isfinite(error) else None
        value = float(self.sensitivity[block])
        bounds = (None, None) if reach is None else (max(value - reach, 0.0), value + reach)
        return (
            Outcome("sensitivity", value, "gradient²", *bounds, note=said),
            Outcome("interaction", float(self.interaction[block]), "gradient⁴", note="energy shared with other blocks"),
        )


def block_energies(
    of: Agop | FactorSums | np.ndarray, atoms: Float[Tensor, "G b d"], *, turns: int = 4, seed: int = 0
) -> BlockEnergies:
    """Sensitivities and off-block energies of a featurizer's blocks.

    Parameters
    ----------
    of
        The AGOP on the input side, at the hook whose rows the featurizer decodes (its module's ``":out"``). With an
        `Agop` or its sums, energies are unbiased and have intervals; of a bare matrix they are plug-in values.
    atoms
        ``featurizer.atoms``, in raw activation units.
    turns, seed
        Random rotations of the control.

    Raises
    ------
    UserError
        For widths that differ, or an AGOP whose matrix was not formed.
    """
    totals, counts = _groups(of.sums if isinstance(of, Agop) else of)
    width = totals.shape[1]
    if atoms.ndim != 3 or atoms.shape[2] != width:
        rule = f"be (blocks, block size, {width}), the width of the AGOP"
        raise refuse("atoms", rule, tuple(atoms.shape), "Take the AGOP at the featurizer's hook, ':out'.")
    d = atoms.double().cpu().numpy()
    if not np.isfinite(d).all():
        raise refuse("atoms", "be finite", "NaN or infinity", "Look at the fit.")
    whole = totals.sum(0) / counts.sum()
    sensitivity = np.einsum("gbd,gbd->g", d @ whole, d)
    means = totals / counts[:, None, None]
    error = np.full(len(d), np.nan)
    if len(means) >= FEWEST:
        each = np.stack([np.einsum("gbd,gbd->g", d @ mean, d) for mean in means])
        error = each.std(0, ddof=1) / np.sqrt(len(each))
    chance = np.square(d).sum((1, 2)) * np.trace(whole) / width
    rows, parts = _energies(d, totals, counts)
    return BlockEnergies(
        sensitivity,
        error,
        np.divide(sensitivity, chance, out=np.full(len(d), np.nan), where=chance > 0),
        rows,
        _outcome("off_block", "gradient⁴", parts, lambda p: p[0]),
        _outcome("off_block_ratio", "share", parts, lambda p: p[0] / p[1] if p[1] > 0 else float("nan")),
        _rotated(d, whole, turns, seed),
    )


def _groups(of: object) -> tuple[Float64[np.ndarray, "M d d"], Float64[np.ndarray, " M"]]:
    """Σ G_i and the number of samples of every group that has any; a matrix is one group of one."""
    if isinstance(of, np.ndarray):
        if of.ndim != 2 or of.shape[0] != of.shape[1]:
            raise refuse("of", "be a square matrix", of.shape, "Pass agop(...).matrix, or the Agop itself.")
        return 0.5 * (of + of.T)[None].astype(np.float64), np.ones(1)
    if not isinstance(of, FactorSums):
        raise refuse("of", "have a formed matrix", type(of).__name__, "Raise memory in How, or use fewer coordinates.")
    counts = of.squares[0].numpy()
    if counts.sum() == 0:
        raise refuse("of", "hold at least one sample", 0, "Add some first.")
    return of.totals.numpy()[counts > 0], counts[counts > 0]


Parts = tuple[float, float]  # off-block and whole energy


def _energies(
    d: Float64[np.ndarray, "G b d"], totals: Float64[np.ndarray, "M d d"], counts: Float64[np.ndarray, " M"]
) -> tuple[Float64[np.ndarray, " G"], list[Parts]]:
    """Off-block energies of every block's row; and the parts of all groups, then without each group in turn."""
    every = totals.sum(0)
    joint = _rows(d, every)
    if len(totals) == 1:
        row, own = joint
        return row - own, [(float((row - own).sum()), float(row.sum()))]
    single = [_rows(d, total) for total in totals]
    pairs = counts.sum() ** 2 - np.square(counts).sum()
    row, own = ((joint[i] - sum(s[i] for s in single)) / pairs for i in (0, 1))
    parts = [(float((row - own).sum()), float(row.sum()))]
    if len(totals) >= FEWEST:
        for g in range(len(totals)):
            left = [s for i, s in enumerate(single) if i != g]
            kept = np.delete(counts, g)
            with_rest = _rows(d, every - totals[g])
            over = kept.sum() ** 2 - np.square(kept).sum()
            whole, inner = ((with_rest[i].sum() - sum(s[i].sum() for s in left)) / over for i in (0, 1))
            parts.append((float(whole - inner), float(whole)))
    return row - own, parts


def _rows(
    d: Float64[np.ndarray, "G b d"], g: Float64[np.ndarray, "d d"]
) -> tuple[Float64[np.ndarray, " G"], Float64[np.ndarray, " G"]]:
    """‖D_g G Dᵀ‖² and ‖D_g G D_gᵀ‖² of every block."""
    flat = d.reshape(-1, d.shape[2])
    gram = flat.T @ flat
    row, own = np.empty(len(d)), np.empty(len(d))
    for start in range(0, len(d), PIECE):
        part = slice(start, start + PIECE)
        along = d[part] @ g  # (blocks, b, d)
        row[part] = np.einsum("gbd,gbd->g", along @ gram, along)
        own[part] = np.square(along @ d[part].transpose(0, 2, 1)).sum((1, 2))
    return row, own


def _rotated(d: Float64[np.ndarray, "G b d"], g: Float64[np.ndarray, "d d"], turns: int, seed: int) -> Outcome:
    """Mean plug-in ratio over random rotations of G against the dictionary."""
    name, unit = "rotated_ratio", "share"
    if turns < 2:
        raise refuse("turns", "be at least 2, for an interval", turns, "4 is enough.")
    found = []
    for turn in range(turns):
        q, r = np.linalg.qr(rng(seed, "turn", turn).standard_normal(g.shape))
        q = q * np.sign(np.diag(r))
        row, own = _rows(d, q @ g @ q.T)
        if row.sum() <= 0:
            return unknown(name, unit, "no block has any sensitivity")
        found.append(1 - own.sum() / row.sum())
    mean, error = float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(turns))
    return Outcome(name, mean, unit, mean - 2 * error, mean + 2 * error, n=turns, n_unit="rotations", note="±2 errors")


def _outcome(name: str, unit: str, parts: list[Parts], of: Callable[[Parts], float]) -> Outcome:
    value = of(parts[0])
    if not np.isfinite(value):
        return unknown(name, unit, "the unbiased energy is not above 0: too few samples")
    left = np.array([of(p) for p in parts[1:]])
    if len(left) == 0:
        note = "plug-in, or fewer than 8 groups of samples: no interval"
        return Outcome(name, value, unit, note=note)
    m = len(left)
    error = float(np.sqrt((m - 1) / m * np.square(left - left.mean()).sum()))
    note = f"products of different groups of samples; standard error {error:.3g}"
    return Outcome(name, value, unit, value - 2.04 * error, value + 2.04 * error, n=m, n_unit="groups", note=note)
