"""Bits a row takes through a featurizer, at a given distortion: the paper's formula, and one without its gauge.

The paper (arXiv 2606.25234, eqs. 5 and 6) charges the choice of blocks, every active coordinate and every direction of
the residual down to one distortion δ each, and the dictionary. Its code bits change when a block's coordinates are
scaled against its atoms. Beside it stands the same without that freedom: the spectrum of contributions z_g D_g, one
water level for code and residual together, and a support that can be decoded when rows have unlike numbers of blocks.
Lower is better; only numbers of one data set, at one distortion, compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource
from monoseme.core.stats import merged
from monoseme.evaluation.code_sums import CodeSums, code_sums, jackknife, log2_choose
from monoseme.evaluation.evaluate import table

__all__ = [
    "HORIZON",
    "DescriptionLength",
    "contribution_spectrum",
    "description_length",
    "dictionary_bits",
    "joint_bits",
    "lengths",
    "paper_bits",
    "water_level",
]

HORIZON = 1_281_167 * 196  # patches of ImageNet's training pictures; the paper does not state its own
FLOORS = (0.01, 0.05, 0.1, 0.2)  # of the paper: 1 - R² of what may be lost
PARTS = ("support", "code", "residual", "dictionary", "total")


@dataclass(frozen=True)
class DescriptionLength:
    """Bits a row, in parts; lower is better.

    Attributes
    ----------
    paper
        By the paper's formula: ``support``, ``code``, ``residual``, ``dictionary``, ``total``.
    joint
        The same without the gauge, with one water level. Its provenance says the level and the distortion it reaches.
    """

    paper: dict[str, Outcome]
    joint: dict[str, Outcome]

    def table(self) -> str:
        """Text, a line a number."""
        return table([*self.paper.values(), *self.joint.values()])


def description_length(
    featurizer: Featurizes,
    rows: RowSource | Tensor | np.ndarray,
    *,
    distortion: float = 0.2,
    horizon: float = HORIZON,
    hard: bool = False,
    batch_size: int = 4096,
    refine: Refine = None,
    groups: Int[Tensor, " samples"] | None = None,
) -> DescriptionLength:
    """Measure bits a row on held-out rows.

    Parameters
    ----------
    featurizer, rows, batch_size, refine, groups
        As in `evaluate`. Intervals leave out a twentieth of the samples (or groups) at a time.
    distortion
        Share of the variance that may be lost, δ ÷ mean variance of a dimension; the paper uses 0.01, 0.05, 0.1, 0.2.
    horizon
        Rows over which the dictionary's bits are spread; not the rows measured on.
    hard
        The paper's rate ½ log2(σ²/δ)₊ as written. By default ½ log2(1 + σ²/δ), which it evaluates.

    Raises
    ------
    UserError
        A distortion outside 0…1, a horizon below 2, rows that do not vary or do not fit.
    """
    if not 0 < distortion < 1:
        raise refuse("distortion", "lie inside 0…1", distortion, "0.2 is the paper's headline.")
    if not horizon >= 2:
        raise refuse("horizon", "be at least 2 rows", horizon, "Say how many rows the dictionary will serve.")
    folds = code_sums(featurizer, rows, batch_size=batch_size, refine=refine, groups=groups)
    return lengths(folds, featurizer.atoms, distortion, horizon, hard)


def lengths(
    folds: list[CodeSums], atoms: Float[Tensor, "G b d"], distortion: float, horizon: float, hard: bool = False
) -> DescriptionLength:
    """The same from sums, for several distortions of one pass."""
    wide = atoms.detach().double().cpu()
    total = sum(fold.rows for fold in folds)
    if sum(fold.variance * fold.rows for fold in folds) <= 0:
        raise refuse("rows", "vary", "constant ones", "There is nothing to describe.")

    def paper(sums: CodeSums) -> list[float]:
        return list(paper_bits(sums, wide, distortion * sums.variance, horizon, hard).values())

    def joint(sums: CodeSums) -> list[float]:
        return list(joint_bits(sums, wide, distortion * sums.variance, horizon)[0].values())

    whole = reduce(merged, folds)
    level, reached = joint_bits(whole, wide, distortion * whole.variance, horizon)[1:]
    given: dict[str, Any] = {"distortion": distortion, "horizon": float(horizon), "rows": total}
    note = f"bits a row at {distortion:g} of the variance; {total:.0f} rows"
    certificate = {"water_level": level, "distortion_reached": reached}
    return DescriptionLength(
        _outcomes("", jackknife(folds, paper), note, given | {"rate": "hard" if hard else "smooth"}),
        _outcomes("joint_", jackknife(folds, joint), f"{note}; contributions, one water level", given | certificate),
    )


def paper_bits(
    sums: CodeSums, atoms: Float64[Tensor, "G b d"], delta: float, horizon: float, hard: bool = False
) -> dict[str, float]:
    """Eqs. 5 and 6: log2 C(G, ℓ) with the mean ℓ; codes by their own covariance; residual; dictionary."""
    G, b, d = atoms.shape
    code = _rate(torch.linalg.eigvalsh(sums.covariance()), delta, hard).sum(1)
    residual = _rate(torch.linalg.eigvalsh(sums.residual), delta, hard).sum()
    return _parts(
        float(log2_choose(G, sums.active / sums.rows)),
        float((sums.density * code).sum()),
        float(residual),
        dictionary_bits(G, b, d, horizon),
    )


def joint_bits(
    sums: CodeSums, atoms: Float64[Tensor, "G b d"], delta: float, horizon: float
) -> tuple[dict[str, float], float, float]:
    """Bits with one water level, that level, and the distortion a dimension that it reaches (the certificate).

    Contributions of different blocks and the residual are taken for uncorrelated, as the paper's formula does. The
    support is decodable: log2(G + 1) for the number of active blocks, and the mean of log2 C(G, |S_i|).
    """
    G, b, d = atoms.shape
    spectrum = contribution_spectrum(sums, atoms)
    weights = torch.cat([sums.density[:, None].expand(G, b).flatten(), torch.ones(d, dtype=torch.float64)])
    values = torch.cat([spectrum.flatten(), torch.linalg.eigvalsh(sums.residual).clamp(min=0)])
    level, reached = water_level(values, weights, delta * d)
    bits = weights * 0.5 * torch.log2((values / level).clamp(min=1))
    support = float(np.log2(G + 1)) + sums.choices / sums.rows
    parts = _parts(support, float(bits[: G * b].sum()), float(bits[G * b :].sum()), dictionary_bits(G, b, d, horizon))
    return parts, level, reached / d


def contribution_spectrum(
    sums: CodeSums, atoms: Float64[Tensor, "G b d"], centred: bool = True
) -> Float64[Tensor, "G b"]:
    """Eigenvalues of the covariance of each block's contribution z_g D_g where it is active, ascending.

    They do not change when a block's coordinates are turned or scaled against its atoms.
    """
    values, vectors = torch.linalg.eigh(atoms @ atoms.mT)
    root = vectors * values.clamp(min=0).sqrt()[:, None, :]  # root rootᵀ is the Gram matrix
    return torch.linalg.eigvalsh(root.mT @ sums.covariance(centred) @ root).clamp(min=0)


def water_level(
    values: Float64[Tensor, " n"], weights: Float64[Tensor, " n"], distortion: float
) -> tuple[float, float]:
    """Level θ with Σ w min(σ², θ) equal to `distortion`, and that sum; the largest value where all may be lost.

    Exact: the sum is linear between sorted values.
    """
    live = weights > 0
    x, order = values[live].sort()
    w = weights[live][order]
    if float((w * x).sum()) <= distortion:
        return max(float(x[-1]), 1e-300), float((w * x).sum())
    below = torch.cat([x.new_zeros(1), (w * x).cumsum(0)])  # of the first i values, all lost
    above = w.flip(0).cumsum(0).flip(0)  # weight from i on
    at = below[:-1] + above * x  # the sum at θ = x_i
    i = int((at < distortion).sum())
    level = float((distortion - below[i]) / above[i])
    return level, float((w * x.clamp(max=level)).sum())


def dictionary_bits(n_blocks: int, block_size: int, d_in: int, horizon: float) -> float:
    """½ G b (d - b) log2 N ÷ N: parameters of G subspaces, each to the precision that N rows can tell (Rissanen)."""
    return 0.5 * n_blocks * block_size * max(d_in - block_size, 0) * float(np.log2(horizon)) / horizon


def _rate(values: Tensor, delta: float, hard: bool) -> Tensor:
    share = values.clamp(min=0) / delta
    return 0.5 * torch.log2(share.clamp(min=1) if hard else 1 + share)


def _parts(*bits: float) -> dict[str, float]:
    return dict(zip(PARTS, (*bits, sum(bits)), strict=True))


def _outcomes(
    prefix: str, found: list[tuple[float, float | None, float | None]], note: str, given: dict[str, Any]
) -> dict[str, Outcome]:
    name = {part: f"{prefix}{'description_length' if part == 'total' else f'{part}_bits'}" for part in PARTS}
    return {
        part: Outcome(name[part], value, "bits/row", low, high, better="lower", note=note, provenance=given)
        for part, (value, low, high) in zip(PARTS, found, strict=True)
    }
