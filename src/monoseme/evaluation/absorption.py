"""Absorption by labels: a latent that should be on is silent, and another carries the concept (Chanin et al. 2024).

For each label a linear probe of the rows gives the concept's direction. Its main latents are those of a k-sparse probe
of the codes, k growing while F1 rises by more than 0.03. A row is absorbed when the label is on, the probe agrees, all
main latents are silent, and the latent that projects most on the direction has a cosine of at least 0.025 with it and
brings at least 0.4 of the row's own projection (thresholds of SAEBench).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.core.seeds import rng

__all__ = ["Absorption", "absorption"]

MIN_COSINE, MIN_SHARE, MIN_RISE, MOST_MAIN = 0.025, 0.4, 0.03, 5


@dataclass(frozen=True, eq=False)
class Absorption:
    """Who absorbs, and whose rows.

    Attributes
    ----------
    absorbed
        (K,) rows on which the latent absorbs some label.
    holes
        (K,) rows of a label of which the latent is a main one, that others absorb.
    main
        (K,) whether it is a main latent of some label.
    rate
        Share of positive rows that are absorbed, by label; lower is better.
    """

    absorbed: Float64[np.ndarray, " K"]
    holes: Float64[np.ndarray, " K"]
    main: Bool[np.ndarray, " K"]
    rate: dict[str, float]


def absorption(
    x: Float64[np.ndarray, "n d"],
    codes: Any,
    atoms: Float64[np.ndarray, "K d"],
    bias: Float64[np.ndarray, " d"],
    labels: dict[str, Bool[np.ndarray, " n"]],
    groups: Int64[np.ndarray, " n"] | None = None,
    seed: int = 0,
) -> Absorption:
    """Measure absorption of every label: probes are fitted on one half of the rows, and all is counted on the other.

    A label that is on in one half only is left out, and has no rate.

    Parameters
    ----------
    x, codes
        Rows, and their nonnegative codes, scipy CSC (n, K).
    atoms, bias
        Of the dictionary, unit atoms.
    labels
        Which rows each label is on.
    groups
        Rows of one group (a document, a picture) fall into the same half; every row its own by default.
    seed
        Of the halves.
    """
    from sklearn.linear_model import LogisticRegression

    n, k = codes.shape
    number = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    many = int(number.max()) + 1
    fit = (rng(seed, "absorption").permutation(many) < many // 2)[number]
    found = Absorption(np.zeros(k), np.zeros(k), np.zeros(k, bool), {})
    z, size = codes.tocsc(), max(float(x[fit].std()), 1e-300)  # probes see rows and codes of order 1
    scaled = (x - x[fit].mean(0)) / size
    for name, on in labels.items():
        if not (on[fit].any() and on[~fit].any() and (~on[fit]).any()):
            continue
        probe = LogisticRegression(C=0.1, max_iter=1000, class_weight="balanced").fit(scaled[fit], on[fit])
        direction = probe.coef_[0] / np.linalg.norm(probe.coef_[0])
        main = _main(z, on, fit)
        found.main[main] = True
        silent = ~np.asarray((z[:, main] > 0).sum(1) > 0).ravel()
        rows = np.flatnonzero(~fit & on & (probe.predict(scaled) > 0) & silent)
        positive = int((~fit & on).sum())
        cosine = atoms @ direction
        brought = z.tocsr()[rows].multiply(cosine).toarray()
        top, most = (brought.argmax(1) if len(rows) else rows), brought.max(1, initial=0.0)
        whole = (x[rows] - bias) @ direction
        hit = (cosine[top] >= MIN_COSINE) & (whole > 0) & (most >= MIN_SHARE * whole)
        np.add.at(found.absorbed, top[hit], 1)
        found.holes[main] += hit.sum()
        found.rate[name] = float(hit.sum()) / max(positive, 1)
    return found


def _main(z: Any, on: Bool[np.ndarray, " n"], fit: Bool[np.ndarray, " n"]) -> list[int]:
    """Latents of the k-sparse probe, k growing while F1 rises."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    gap = np.asarray(z[fit & on].mean(0) - z[fit & ~on].mean(0)).ravel()
    order, chosen, best = np.argsort(-gap), 0, 0.0
    for size in range(1, MOST_MAIN + 1):
        part = z[:, order[:size]].toarray()
        part /= np.maximum(part[fit].max(0), 1e-300)
        probe = LogisticRegression(max_iter=1000, class_weight="balanced").fit(part[fit], on[fit])
        score = float(f1_score(on[fit], probe.predict(part[fit])))
        if size > 1 and score - best <= MIN_RISE:
            break
        chosen, best = size, score
    return order[:chosen].tolist()
