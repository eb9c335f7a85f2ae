"""Does a featurizer find the parts that were planted? Each factor is matched to a block and scored from it alone.

The score of a factor m and a prediction m̂ is R² = 1 − Σ‖m − m̂‖² ÷ Σ‖m − m̄‖², with m̂ = z_g D_g of the matched block, 0
where it does not fire. The featurizer's bias belongs to all blocks and is credited to none. Contributions of a world of
manifolds have mean zero, so nothing is lost by that; those of scalar concepts may not, and what a featurizer writes of
them into its bias is lost. Two sets of rows:

- ``r2``: the rows where the factor is active (the paper's score). A block that also fires elsewhere is not punished.
  NaN for a factor that is constant there.
- ``r2_everywhere``: the rows where the factor is active or the block fires, with m = 0 where it is not active.

And two ways to match, both by the phi coefficient between "factor active" and "block fires" (Pearson's correlation of
two binary variables; the paper says "whose firing best predicts its active mask" and names no statistic):

- ``best``: every factor takes its best block; several may share one.
- ``one_to_one``: the assignment with the largest sum of phi (Hungarian). A factor left over is predicted by 0.

Reference: arXiv 2606.25234, App. H.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import ArrayRows
from monoseme.core.stats import ratio_interval
from monoseme.core.support import Support
from monoseme.evaluation.evaluate import table
from monoseme.evaluation.predict import Firings, greedy
from monoseme.evaluation.reading import encoded
from monoseme.worlds import Sample

__all__ = ["FactorScore", "Match", "Recovery", "one_to_one", "phi_coefficients", "recover"]

CONSTANT = "no factor varies there"


@dataclass(frozen=True)
class Match:
    """What speaks for a factor, and how well.

    Attributes
    ----------
    blocks
        The matched block; several for the greedy choice of atoms; empty when none was left.
    phi
        Correlation between "factor active" and "block fires"; of the first block when there are several.
    purity
        Share of the block's firings on which the factor is active; NaN when it never fires.
    recall
        Share of the factor's active rows on which the block fires.
    r2, r2_everywhere
        See the module. At most 1; higher is better.
    """

    blocks: tuple[int, ...]
    phi: float
    purity: float
    recall: float
    r2: float
    r2_everywhere: float


@dataclass(frozen=True)
class FactorScore:
    """One factor and its matches; `atoms` only for scalar codes (see `recover`)."""

    factor: int
    kind: str
    b: int
    rows: int
    best: Match
    one_to_one: Match
    atoms: Match | None


@dataclass(frozen=True)
class Recovery:
    """How well the planted parts were found.

    Attributes
    ----------
    outcomes
        ``recovery`` (best block) and ``recovery_one_to_one``, each also ``…_everywhere``; ``distinct_blocks``,
        ``purity``; ``recovery_atoms`` for scalar codes; then ``recovery/KIND`` for every type of factor.
    factors
        The table behind them: every factor active on enough rows.
    """

    outcomes: tuple[Outcome, ...]
    factors: tuple[FactorScore, ...] = field(repr=False)

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def table(self) -> str:
        """Plain text, one line a number."""
        return table(self.outcomes)


def phi_coefficients(
    both: Int64[np.ndarray, "M G"], factor: Int64[np.ndarray, " M"], block: Int64[np.ndarray, " G"], n: int
) -> Float64[np.ndarray, "M G"]:
    """Pearson correlation of binary masks from counts; 0 where one of them is constant.

    Parameters
    ----------
    both, factor, block
        Rows where both are on, where the factor is, where the block is.
    n
        All rows.
    """
    a, p = factor.astype(np.float64)[:, None], block.astype(np.float64)[None, :]
    spread = np.sqrt(a * (n - a) * p * (n - p))
    return np.divide(n * both - a * p, spread, out=np.zeros(both.shape), where=spread > 0)


def one_to_one(phi: Float64[np.ndarray, "M G"]) -> Int64[np.ndarray, " M"]:
    """Assign blocks to factors so that the sum of phi is largest; −1 for factors left over when M > G."""
    from scipy.optimize import linear_sum_assignment

    factors, blocks = linear_sum_assignment(phi, maximize=True)
    assigned = np.full(len(phi), -1)
    assigned[factors] = blocks
    return assigned


def recover(
    featurizer: Featurizes,
    sample: Sample,
    refine: Refine = None,
    *,
    min_rows: int = 100,
    batch_size: int = 4096,
    seed: int = 0,
) -> Recovery:
    """Score a featurizer against the world its rows came from.

    Of a scalar code (b = 1) each factor is also given the up to b_i atoms whose summed contributions fit it best on its
    active rows, chosen greedily by R². That grouping comes from an oracle, which a block does not need: it is the
    kindest reading of a scalar code, not a result of it.

    Parameters
    ----------
    featurizer
        What is scored.
    sample
        Rows with their true parts: ``world.sample(n, seed)``. Draw it with another seed than the training rows.
    refine
        Improve the codes at inference: ``"ls"`` or ``"omp"``.
    min_rows
        Factors active on fewer rows are left out.
    batch_size
        Rows encoded at once.
    seed
        Of the bootstrap over factors.

    Raises
    ------
    UserError
        Another width than the featurizer's, or no factor active on `min_rows` rows.
    """
    code = Code.cat([code for _, code in encoded(featurizer, ArrayRows(sample.x), batch_size, refine)])
    firings = Firings(code, featurizer.atoms)
    active, both = _together(sample, code)
    phi = phi_coefficients(both, active, firings.counts, len(sample))
    best, assigned = phi.argmax(1), one_to_one(phi)
    scores = []
    for i in np.flatnonzero(active >= min_rows).tolist():
        factor, part, rows = sample.world.factors[i], sample.contribution(i), sample.rows(i)

        def judge(blocks: list[int], i: int = i, part: Tensor = part, rows: Tensor = rows) -> Match:
            hits, fired, correlation = 0, 0, float("nan")
            if blocks:
                hits, fired, correlation = both[i, blocks[0]], firings.counts[blocks[0]], float(phi[i, blocks[0]])
            purity = float(hits / fired) if fired else float("nan")
            return Match(tuple(blocks), correlation, purity, float(hits / active[i]), *firings.r2(part, rows, blocks))

        grouped = None
        if code.block_size == 1:
            span = torch.from_numpy(factor.basis)
            grouped = judge(greedy(firings, part @ span.T, span, rows, factor.b))
        own = judge([int(assigned[i])] if assigned[i] >= 0 else [])
        scores.append(FactorScore(i, factor.kind, factor.b, len(rows), judge([int(best[i])]), own, grouped))
    if not scores:
        raise refuse("sample", f"have a factor active on {min_rows} rows", int(active.max()), "Draw more rows.")
    where = {"world_seed": sample.world.seed, "sample_seed": sample.seed, "rows": len(sample), "refine": refine}
    outcomes = (replace(outcome, provenance=where) for outcome in _outcomes(scores, len(active), seed))
    return Recovery(tuple(outcomes), tuple(scores))


def _together(sample: Sample, code: Code) -> tuple[Int64[np.ndarray, " M"], Int64[np.ndarray, "M G"]]:
    """Rows on which each factor is active, and on which each pair (factor, block) is; from the sparse lists alone."""
    from scipy.sparse import csr_array

    def mask(support: Support) -> csr_array:
        ones = np.ones(len(support.indices), dtype=np.int64)
        lists = (ones, support.indices.cpu().numpy(), support.indptr.cpu().numpy())
        return csr_array(lists, shape=(support.n_rows, support.n_blocks))

    both = mask(sample.support).T @ mask(code.support)
    return sample.support.counts().numpy(), both.toarray()


def _outcomes(scores: list[FactorScore], planted: int, seed: int) -> Iterable[Outcome]:
    among = f"{len(scores)} of {planted} factors"

    def mean(name: str, values: list[float], note: str, unit: str = "1", why: str = CONSTANT) -> Outcome:
        known = np.array(values)[np.isfinite(values)]
        if not len(known):
            return unknown(name, unit, f"{note}: {why}")
        low, high = ratio_interval(known, np.ones_like(known), seed=seed)
        ends = (low, high) if np.isfinite([low, high]).all() else (None, None)
        value, n = float(known.mean()), len(known)
        return Outcome(name, value, unit, *ends, better="higher", n=n, n_unit="factors", note=note)

    own, everywhere = "R² on its active rows", "R² on rows where it is active or the block fires"
    yield mean("recovery", [s.best.r2 for s in scores], f"each factor by its best block, {own}; {among}")
    yield mean("recovery_everywhere", [s.best.r2_everywhere for s in scores], f"the same block, {everywhere}")
    yield mean("recovery_one_to_one", [s.one_to_one.r2 for s in scores], f"no block twice, {own}")
    yield mean(
        "recovery_one_to_one_everywhere", [s.one_to_one.r2_everywhere for s in scores], f"no block twice, {everywhere}"
    )
    distinct = len({s.best.blocks for s in scores})
    yield Outcome("distinct_blocks", distinct, "blocks", better="higher", note=f"best blocks of {among}")
    yield mean(
        "purity",
        [s.best.purity for s in scores],
        "share of the best block's firings with the factor active",
        "share",
        why="no block fires",
    )
    grouped = [s.atoms.r2 for s in scores if s.atoms]
    if grouped:
        yield mean(
            "recovery_atoms", grouped, f"the up to b best atoms, grouped by an oracle that a block does not need; {own}"
        )
    for kind in dict.fromkeys(s.kind for s in scores):
        yield mean(f"recovery/{kind}", [s.best.r2 for s in scores if s.kind == kind], f"{kind} factors, best block")
