"""One concept, one block: how well the best single block tells a class (arXiv 2606.25234, app. G.2).

For a class and a block: a direction v inside the block by logistic regression on the rows where it fires; a sample's
score is the largest ⟨z_g, v⟩ over its positions; a threshold with the best F1. Block and threshold are chosen on
training samples, F1 is of the others. For a fair control an SAE gets its b best latents, fitted in the same way: a set
of scalar latents is one group of columns, as a block is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng

__all__ = ["ConceptF1", "best_threshold", "f1", "one_concept_f1", "one_concept_f1s", "sample_scores"]

CANDIDATES = 64  # units fitted a class, the most promising by a cheap score
DRAWS = 500


@dataclass(frozen=True, eq=False)
class ConceptF1:
    """Of one class; higher is better.

    Attributes
    ----------
    f1
        On test samples, with an interval over samples.
    train
        The same on training samples, where block and threshold were chosen.
    units
        Columns' groups used: one block, or several latents.
    threshold
        Of the sample's score.
    chance
        F1 of saying yes always, on test samples.
    """

    f1: Outcome
    train: float
    units: tuple[int, ...]
    threshold: float
    chance: float


def one_concept_f1(
    matrix: Any,
    sample: Int64[np.ndarray, " n"],
    labels: Bool[np.ndarray, " s"],
    train: Bool[np.ndarray, " s"],
    *,
    block_size: int,
    latents: int = 1,
    seed: int = 0,
) -> ConceptF1:
    """Find the best block for a class, and measure it.

    Parameters
    ----------
    matrix
        (n, G b) codes, a SciPy sparse array (`probing.code_matrix`).
    sample
        (n,) of every row, counted 0…s - 1.
    labels
        (s,) whether each sample is of the class.
    train
        (s,) samples on which direction, block and threshold are chosen; F1 is of the others.
    block_size
        b of the codes.
    latents
        Units used together: 1 for blocks; for an SAE (b = 1) as many as the blocks have dimensions, the best single
        ones by F1 on training samples.

    Raises
    ------
    UserError
        Lengths that do not fit, a class with no sample on one side of the split.
    """
    return one_concept_f1s(matrix, sample, labels, train, (latents,), block_size=block_size, seed=seed)[latents]


def one_concept_f1s(
    matrix: Any,
    sample: Int64[np.ndarray, " n"],
    labels: Bool[np.ndarray, " s"],
    train: Bool[np.ndarray, " s"],
    latents: Sequence[int],
    *,
    block_size: int,
    seed: int = 0,
) -> dict[int, ConceptF1]:
    """`one_concept_f1` for several numbers of latents; single units are fitted once."""
    sample, labels, train = np.asarray(sample), np.asarray(labels, dtype=bool), np.asarray(train, dtype=bool)
    for many in latents:
        _check(matrix, sample, labels, train, block_size, many)
    columns = matrix.tocsc()
    units = _promising(columns, sample, labels, train, block_size)
    truth = labels[~train]
    chance = f1(truth, np.ones(len(truth), dtype=bool))
    if not units:
        return {n: ConceptF1(unknown("f1", "1", "no block fires"), 0.0, (), 0.0, chance) for n in latents}
    fitted = [_fit(columns, (g,), sample, labels, train, block_size) for g in units]
    order = np.argsort([-one[1] for one in fitted], kind="stable")
    found = {}
    for many in latents:
        chosen = tuple(units[i] for i in order[:many])
        scores, reached, cut = _fit(columns, chosen, sample, labels, train, block_size)
        found[many] = ConceptF1(_value(truth, scores[~train] > cut, seed), reached, chosen, cut, chance)
    return found


def _value(truth: np.ndarray, said: np.ndarray, seed: int) -> Outcome:
    low, high = _interval(truth, said, seed)
    note = f"{int(truth.sum())} of {len(truth)} test samples are of the class"
    return Outcome("f1", f1(truth, said), "1", low, high, better="higher", n=len(truth), n_unit="samples", note=note)


def f1(truth: Bool[np.ndarray, " n"], said: Bool[np.ndarray, " n"]) -> float:
    """2 TP ÷ (2 TP + FP + FN); 0 where nothing is true and nothing said."""
    hits = int((truth & said).sum())
    return 2 * hits / max(int(truth.sum() + said.sum()), 1)


def best_threshold(scores: Float64[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> tuple[float, float]:
    """The threshold (yes above it) with the best F1, in the middle between two scores; and that F1."""
    levels = np.unique(scores)
    order = np.argsort(-scores, kind="stable")
    hits, many = np.cumsum(truth[order]), np.arange(1, len(scores) + 1)
    values = 2 * hits / (many + truth.sum())
    last = np.flatnonzero(np.append(scores[order][1:] != scores[order][:-1], True))  # ties go together
    best = last[int(values[last].argmax())]
    below = levels[levels < scores[order[best]]]
    cut = (scores[order[best]] + below[-1]) / 2 if len(below) else scores[order[best]] - 1.0
    return float(cut), float(values[best])


def sample_scores(
    values: Float64[np.ndarray, " n"], sample: Int64[np.ndarray, " n"], samples: int
) -> Float64[np.ndarray, " s"]:
    """Largest value of every sample; rows on which nothing fires have 0, so no sample is below it without one."""
    found = np.full(samples, -np.inf)
    np.maximum.at(found, sample, values)
    return np.where(np.isfinite(found), found, 0.0)


def _fit(
    columns: Any, units: Sequence[int], sample: np.ndarray, labels: np.ndarray, train: np.ndarray, b: int
) -> tuple[np.ndarray, float, float]:
    """Scores of all samples, F1 on training ones, threshold."""
    from sklearn.linear_model import LogisticRegression

    at = np.concatenate([np.arange(g * b, (g + 1) * b) for g in units])
    z = columns[:, at].toarray()
    rows = np.flatnonzero((z != 0).any(1) & train[sample])
    y = labels[sample[rows]]
    if len(np.unique(y)) < 2:  # it fires on one side only: its size is all there is
        direction = np.ones(len(at)) if y.any() or not len(y) else -np.ones(len(at))
    else:
        scale = np.sqrt(np.square(z[rows]).mean())
        model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=500).fit(z[rows] / scale, y)
        direction = model.coef_[0]
    scores = sample_scores(z @ direction, sample, len(labels))
    threshold, reached = best_threshold(scores[train], labels[train])
    return scores, reached, threshold


def _promising(columns: Any, sample: np.ndarray, labels: np.ndarray, train: np.ndarray, b: int) -> list[int]:
    """Blocks by how unlike their largest presence is in samples with and without the class, on training samples."""
    G = columns.shape[1] // b
    if len(labels) * G > 1 << 25:
        raise refuse("matrix", "have samples × blocks of at most 2²⁵", f"{len(labels)} × {G}", "Take fewer samples.")
    entries = columns.tocoo()
    keys, of_entry = np.unique(entries.row.astype(np.int64) * G + entries.col // b, return_inverse=True)
    presence = np.sqrt(np.bincount(of_entry, weights=entries.data**2, minlength=len(keys)))
    top = np.zeros((len(labels), G))
    np.maximum.at(top, (sample[keys // G], keys % G), presence)
    yes, no = top[train & labels], top[train & ~labels]
    spread = np.sqrt(yes.var(0) / len(yes) + no.var(0) / len(no)) + 1e-12 * (1 + np.abs(top).max())
    score = np.abs(yes.mean(0) - no.mean(0)) / spread
    live = np.flatnonzero(top.max(0) > 0)
    return live[np.argsort(-score[live], kind="stable")][:CANDIDATES].tolist()


def _interval(truth: np.ndarray, said: np.ndarray, seed: int) -> tuple[float | None, float | None]:
    draws = rng(seed, "f1").integers(0, len(truth), (DRAWS, len(truth)))
    again = [f1(truth[d], said[d]) for d in draws]
    low, high = np.quantile(again, [0.025, 0.975])
    return float(low), float(high)


def _check(matrix: Any, sample: np.ndarray, labels: np.ndarray, train: np.ndarray, b: int, latents: int) -> None:
    if matrix.shape[0] != len(sample) or len(labels) != len(train) or matrix.shape[1] % b:
        got = f"{matrix.shape}, {len(sample)}, {len(labels)}, {len(train)}"
        raise refuse("matrix, sample, labels and train", "fit one another", got, "See the docstring's shapes.")
    if len(sample) and (sample.min() < 0 or sample.max() >= len(labels)):
        raise refuse("sample", f"lie in 0..{len(labels) - 1}", int(sample.max()), "Count samples from 0.")
    if latents < 1 or (latents > 1 and b > 1):
        raise refuse("latents", "be 1 for blocks, at least 1 for an SAE", latents, "Blocks have their own dimensions.")
    for name, side in (("training", train), ("test", ~train)):
        if not labels[side].any() or labels[side].all():
            raise refuse("labels", f"have both answers on the {name} side", int(labels[side].sum()), "Split otherwise.")
