"""Do other seeds find the same parts? Blocks of fitted featurizers are matched by their spans.

Only spans are compared (see `spans.similarity`), so a dictionary is equal to itself after its blocks are permuted,
rotated or rescaled. Blocks that never fire are left out: they still stand where they started.

How alike two *random* dictionaries are when they are matched in the same way is reported beside it. The more blocks,
the larger it is, because every block has more partners to choose from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.protocols import Featurizes
from monoseme.core.seeds import generator
from monoseme.core.stats import ratio_interval, wilson
from monoseme.evaluation.cofiring import presence_correlation
from monoseme.evaluation.evaluate import table
from monoseme.evaluation.spans import Spans, similarity, spans

__all__ = ["SeedPair", "Stability", "stability"]

Sign = Literal["free", "nonneg"]


@dataclass(frozen=True, eq=False)
class SeedPair:
    """Two dictionaries, block by block.

    Attributes
    ----------
    first, second
        Which of the given featurizers.
    match
        (G,) block of `second` assigned to each block of `first`, none twice, so that the sum of similarities is
        largest; −1 for dead blocks and those left over.
    similarity
        (G,) of the assigned blocks, in [0, 1], 1 is the same span; NaN where there is none.
    best
        (G,) similarity to the nearest live block of `second`, which several may share; NaN for dead blocks.
    best_back
        (H,) the same for the blocks of `second`, among those of `first`.
    """

    first: int
    second: int
    match: Int64[np.ndarray, " G"] = field(repr=False)
    similarity: Float64[np.ndarray, " G"] = field(repr=False)
    best: Float64[np.ndarray, " G"] = field(repr=False)
    best_back: Float64[np.ndarray, " H"] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Stability:
    """How far seeds agree.

    Attributes
    ----------
    outcomes
        ``stability``, ``stability_best``, ``stability_share/T`` for every threshold T, ``chance_similarity``,
        ``chance_stability``; ``firing_agreement`` when codes were given.
    pairs
        The matches behind them, one for every two featurizers.
    """

    outcomes: tuple[Outcome, ...]
    pairs: tuple[SeedPair, ...] = field(repr=False)

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def table(self) -> str:
        """Plain text, one line a number."""
        return table(self.outcomes)


def stability(
    featurizers: Sequence[Featurizes | Float[Tensor, "_ _ d"]],
    *,
    densities: Sequence[Float64[np.ndarray, " _"]] | None = None,
    codes: Sequence[Code] | None = None,
    sign: Sign | None = None,
    thresholds: Sequence[float] = (0.5, 0.7, 0.9),
    seed: int = 0,
) -> Stability:
    """Match the blocks of two or more fitted featurizers and say how alike they are.

    Parameters
    ----------
    featurizers
        Fitted with different seeds on the same rows; or their atoms, (G, b, d). Numbers and sizes of blocks may differ.
    densities
        Share of rows on which each block fires, one array a featurizer (`Evaluation.density`). Those at 0 are left out.
    codes
        Their codes of the same rows in the same order: adds ``firing_agreement``, and densities if none are given.
    sign
        ``"nonneg"``: opposite scalar atoms are different. By default that of the featurizers, if all say "nonneg".
    thresholds
        Similarities, in (0, 1), for ``stability_share/T``.
    seed
        Of the random dictionaries and of the resampling.

    Returns
    -------
    Stability
        Intervals at 95 %. From two featurizers they resample matched blocks, and do not say what a third seed would
        give; from three or more they come from leaving out one seed at a time (jackknife, Student's t).

    Raises
    ------
    UserError
        Fewer than two featurizers, different widths, densities or codes that do not fit, no live block, or a threshold
        outside (0, 1).
    """
    atoms = [given if isinstance(given, Tensor) else given.atoms for given in featurizers]
    if len(atoms) < 2:
        raise refuse("featurizers", "be at least two", len(atoms), "Fit another seed.")
    for i, each in enumerate(atoms):
        if each.ndim != 3 or not bool(torch.isfinite(each).all()):
            got = f"{tuple(each.shape)}" + ("" if each.ndim != 3 else " with NaN or infinity")
            raise refuse(f"featurizers[{i}]", "have finite atoms (G, b, d)", got, "Scalar atoms have b = 1.")
    if sign not in (None, *get_args(Sign)):
        raise refuse("sign", "be 'free' or 'nonneg'", repr(sign), "By default that of the featurizers.")
    widths = sorted({each.shape[2] for each in atoms})
    if len(widths) > 1:
        raise refuse("featurizers", "have one width", widths, "Only rows of one hook can be compared.")
    if not all(0 < t < 1 for t in thresholds):
        raise refuse("thresholds", "lie in (0, 1)", tuple(thresholds), "0.7 is a mean angle of about 33 degrees.")
    _check_codes(codes, atoms)
    if densities is None and codes is not None:
        densities = [code.counts().cpu().numpy() / max(code.n_rows, 1) for code in codes]
    if densities is not None and len(densities) != len(atoms):
        raise refuse(
            "densities", f"be {len(atoms)} arrays, one a featurizer", len(densities), "See Evaluation.density."
        )
    nonneg = (sign or _common_sign(featurizers)) == "nonneg"
    found = [spans(each) for each in atoms]
    live = [_live(each, densities, i) for i, each in enumerate(found)]
    pairs = tuple(
        _pair(i, j, (found[i], found[j]), (live[i], live[j]), nonneg) for i, j in combinations(range(len(found)), 2)
    )
    outcomes = [
        *_agreement(pairs, thresholds, live, seed),
        *_chance(found[0].take(live[0]), found[1].take(live[1]), nonneg, seed),
    ]
    if codes is not None:
        firing = [_firing(pair, codes[pair.first], codes[pair.second]) for pair in pairs]
        note = "Pearson correlation of the presences of matched blocks over the same rows"
        outcomes.append(_over_pairs("firing_agreement", firing, pairs, note, seed))
    return Stability(tuple(outcomes), pairs)


def _common_sign(featurizers: Sequence[object]) -> Sign:
    return "nonneg" if all(getattr(each, "sign", "free") == "nonneg" for each in featurizers) else "free"


def _check_codes(codes: Sequence[Code] | None, atoms: Sequence[Tensor]) -> None:
    if codes is None:
        return
    if [code.n_blocks for code in codes] != [len(each) for each in atoms]:
        sizes = [code.n_blocks for code in codes]
        raise refuse("codes", "be one a featurizer, with its number of blocks", sizes, "Encode the rows with each.")
    if len({code.n_rows for code in codes}) > 1 or codes[0].n_rows < 2:
        rows = [code.n_rows for code in codes]
        raise refuse("codes", "be of the same rows, two at least", rows, "Encode the same rows with each.")


def _live(found: Spans, densities: Sequence[np.ndarray] | None, i: int) -> Tensor:
    """Blocks that have a span and fire."""
    alive = found.rank > 0
    if densities is not None:
        if len(densities[i]) != len(found):
            got = len(densities[i])
            raise refuse(f"densities[{i}]", f"hold {len(found)} numbers, one a block", got, "See Evaluation.density.")
        alive &= torch.from_numpy(np.asarray(densities[i]) > 0)
    if not alive.any():
        raise refuse(
            f"featurizers[{i}]", "have a live block", f"{len(found)} dead ones", "Train it, or lower its sparsity."
        )
    return alive.nonzero().squeeze(1)


def _pair(i: int, j: int, found: tuple[Spans, Spans], live: tuple[Tensor, Tensor], nonneg: bool) -> SeedPair:
    (G, H), (rows, columns) = (len(found[0]), len(found[1])), (live[0].numpy(), live[1].numpy())
    alike = similarity(found[0].take(live[0]), found[1].take(live[1]), nonneg)
    left, right = _assign(alike)
    match, matched = np.full(G, -1, dtype=np.int64), np.full(G, np.nan)
    match[rows[left]], matched[rows[left]] = columns[right], alike[left, right]
    best, back = np.full(G, np.nan), np.full(H, np.nan)
    best[rows], back[columns] = alike.max(1), alike.max(0)
    return SeedPair(i, j, match, matched, best, back)


def _assign(alike: Float64[np.ndarray, "g h"]) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " m"]]:
    from scipy.optimize import linear_sum_assignment

    left, right = linear_sum_assignment(alike, maximize=True)
    return left, right


def _firing(pair: SeedPair, first: Code, second: Code) -> Float64[np.ndarray, " m"]:
    mine = np.flatnonzero(pair.match >= 0)
    return presence_correlation(first, mine, second, pair.match[mine])


def _agreement(
    pairs: Sequence[SeedPair], thresholds: Sequence[float], live: Sequence[Tensor], seed: int
) -> Iterator[Outcome]:
    matched = [pair.similarity[pair.match >= 0] for pair in pairs]
    sizes = ", ".join(str(len(each)) for each in live)
    note = f"mean squared cosine of principal angles, blocks matched one to one; live blocks {sizes}"
    yield _over_pairs("stability", matched, pairs, note, seed)
    best = [np.concatenate([each[np.isfinite(each)] for each in (pair.best, pair.best_back)]) for pair in pairs]
    yield _over_pairs("stability_best", best, pairs, "each block by its nearest, several may share one", seed)
    for t in thresholds:
        above = [(each >= t).astype(np.float64) for each in matched]
        note = f"matched blocks at least {t:g} alike"
        yield _over_pairs(f"stability_share/{t:g}", above, pairs, note, seed, share=True)


def _over_pairs(
    name: str, values: Sequence[np.ndarray], pairs: Sequence[SeedPair], note: str, seed: int, share: bool = False
) -> Outcome:
    """Mean over pairs of seeds of the mean over blocks, with an interval over blocks (one pair) or over seeds."""
    unit = "share" if share else "1"
    known = [each[np.isfinite(each)] for each in values]
    if not all(len(each) for each in known):
        return unknown(name, unit, f"{note}: none is defined")
    means = np.array([each.mean() for each in known])
    if len(pairs) > 1:
        seeds = max(pair.second for pair in pairs) + 1
        low, high = _jackknife(means, pairs, seeds)
        n, of, over = seeds, "seeds", "interval over seeds"
    else:
        n, of, over = len(known[0]), "blocks", "interval over blocks, not over seeds"
        ends = wilson(int(known[0].sum()), n) if share else ratio_interval(known[0], np.ones(n), seed=seed)
        low, high = ends if np.isfinite(ends).all() else (None, None)
    return Outcome(name, float(means.mean()), unit, low, high, better="higher", n=n, n_unit=of, note=f"{note}; {over}")


def _jackknife(means: Float64[np.ndarray, " p"], pairs: Sequence[SeedPair], seeds: int) -> tuple[float, float]:
    """Interval of a mean over pairs: leave out one seed, and every pair it is in, at a time."""
    from scipy.stats import t

    left = np.array(
        [
            np.mean([m for m, pair in zip(means, pairs, strict=True) if s not in (pair.first, pair.second)])
            for s in range(seeds)
        ]
    )
    half = float(t.ppf(0.975, seeds - 1)) * float(np.sqrt((seeds - 1) / seeds * np.square(left - left.mean()).sum()))
    return max(float(means.mean()) - half, -1.0), min(float(means.mean()) + half, 1.0)


def _chance(first: Spans, second: Spans, nonneg: bool, seed: int) -> Iterator[Outcome]:
    """Random spans of the same ranks: any two in closed form, and matched ones by one draw."""
    d = first.bases.shape[2]
    signed = nonneg and first.bases.shape[1] == second.bases.shape[1] == 1
    smaller = np.minimum(first.rank.numpy()[:, None], second.rank.numpy()[None, :])
    expected = float(smaller.mean()) / d * (0.5 if signed else 1)
    yield Outcome("chance_similarity", expected, "1", note="expected between two random blocks of these sizes: b/d")
    drawn = []
    for name, each in (("first", first), ("second", second)):
        gaussian = torch.randn(each.bases.shape, generator=generator(seed, "chance", name), dtype=torch.float64)
        inside = torch.arange(gaussian.shape[1]) < each.rank[:, None]
        drawn.append(spans(gaussian * inside[:, :, None]))
    alike = similarity(drawn[0], drawn[1], nonneg)
    matched = alike[_assign(alike)]
    note = "stability of two random dictionaries of the first two's sizes, one draw"
    yield Outcome("chance_stability", float(matched.mean()), "1", note=note)
