"""How many dimensions of its block a concept uses: ranks of the covariance of its contributions where it fires.

"Stable rank" is read in two ways by those who compute it: of the covariance, Σλ² ÷ λ₁², and of the codes themselves,
Σλ ÷ λ₁. Both are here under their own names. All are between 1 and b, and do not change with the gauge of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource
from monoseme.core.stats import merged
from monoseme.evaluation.code_sums import CodeSums, code_sums, jackknife
from monoseme.evaluation.description_length import contribution_spectrum
from monoseme.evaluation.evaluate import table

__all__ = ["FEWEST", "RANKS", "UNITS", "Dimension", "dimension", "ranks"]

FEWEST = 2  # firings a dimension of the block, below which a covariance says nothing
UNITS = {"utilisation": "share"}
RANKS = ("stable_rank_covariance", "stable_rank_codes", "participation_ratio", "effective_rank", "utilisation")


@dataclass(frozen=True, eq=False)
class Dimension:
    """Dimensions that blocks use.

    Attributes
    ----------
    outcomes
        Means over blocks, weighted by how often each fires, by name of the rank; and ``too_rare``, blocks that fire
        less than twice a dimension and are in none of them.
    per_block
        (G,) for every rank; NaN where the block is too rare.
    """

    outcomes: dict[str, Outcome]
    per_block: dict[str, Float64[np.ndarray, " G"]]

    def table(self) -> str:
        """Text, a line a number."""
        return table(self.outcomes.values())


def dimension(
    featurizer: Featurizes,
    rows: RowSource | Tensor | np.ndarray,
    *,
    centred: bool = True,
    batch_size: int = 4096,
    refine: Refine = None,
    groups: Int[Tensor, " samples"] | None = None,
) -> Dimension:
    """Measure on held-out rows; intervals leave out a twentieth of the samples at a time.

    Parameters
    ----------
    centred
        About each block's mean where it fires (a covariance). Otherwise about 0: then the offset of a concept that is
        always on one side counts as a dimension.
    """
    folds = code_sums(featurizer, rows, batch_size=batch_size, refine=refine, groups=groups)
    atoms = featurizer.atoms.detach().double().cpu()
    b = atoms.shape[1]

    def means(sums: CodeSums) -> list[float]:
        found = ranks(contribution_spectrum(sums, atoms, centred))
        weight = torch.where(_enough(sums, b), sums.fired, 0.0)
        total = float(weight.sum())
        return [float((weight * torch.nan_to_num(found[name])).sum()) / total if total else np.nan for name in RANKS]

    whole = reduce(merged, folds)
    enough = _enough(whole, b)
    each = ranks(contribution_spectrum(whole, atoms, centred))
    live = int(enough.sum())
    note = f"of {live} blocks, weighted by firings; {whole.rows:.0f} rows"
    if not live:
        outcomes = {name: unknown(name, "dims", "no block fires twice a dimension") for name in RANKS}
    else:
        outcomes = {
            name: Outcome(name, value, UNITS.get(name, "dims"), low, high, n=live, n_unit="blocks", note=note)
            for name, (value, low, high) in zip(RANKS, jackknife(folds, means), strict=True)
        }
    rare = int((~enough).sum())
    outcomes["too_rare"] = Outcome("too_rare", float(rare), "blocks", note=f"fire less than {FEWEST * b} times")
    per_block = {name: torch.where(enough, each[name], torch.nan).numpy() for name in RANKS}
    return Dimension(outcomes, per_block)


def ranks(spectrum: Float64[Tensor, "G b"]) -> dict[str, Float64[Tensor, " G"]]:
    """Every reading of a spectrum; NaN where it is 0.

    Examples
    --------
    >>> {k: round(float(v), 2) for k, v in ranks(torch.tensor([[1.0, 0.5, 0.25]], dtype=torch.float64)).items()}
    {'stable_rank_covariance': 1.31, 'stable_rank_codes': 1.75, 'participation_ratio': 2.33, 'effective_rank': 2.6, 'utilisation': 0.87}
    """  # noqa: E501
    if bool((spectrum < 0).any()):
        raise refuse("spectrum", "be of a covariance, so at least 0", float(spectrum.min()), "Take eigenvalues.")
    total, top = spectrum.sum(1), spectrum.amax(1)
    share = spectrum / total[:, None]
    effective = torch.exp(-torch.special.xlogy(share, share).sum(1))
    return {
        "stable_rank_covariance": spectrum.square().sum(1) / top.square(),
        "stable_rank_codes": total / top,
        "participation_ratio": total.square() / spectrum.square().sum(1),
        "effective_rank": effective,
        "utilisation": effective / spectrum.shape[1],
    }


def _enough(sums: CodeSums, b: int) -> Tensor:
    return sums.fired >= FEWEST * b
