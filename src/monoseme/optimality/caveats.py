"""What to know before a verdict is believed: how far the codes are from optimal, and whether rows are enough.

Rows (ours). For a feature to be proven stable, nonnegative weights on the rows where it is off must solve one equation
for each other live latent, and one for their sum. With fewer rows than equations there are none but by accident; with
N rows in general position and K equations, symmetric under signs, there are with the chance that N - 1 tosses of a coin
show at least K heads (Wendel 1962): a half at N = 2K, all but certain at 4K. Below, "unstable" may say no more than
that rows are few. And a latent k that is on in only a_k rows looks like a strict child of j by chance with probability
p_j^a_k, were they independent: Σ_j≠k p_j^a_k such parents are expected for it.

Held-out rows. With no violator among n of them, at most 1 - 0.05^(1/n) of all rows violate, at 95 %. That is at most
the allowed share `leak` from n = log 0.05 / log(1 - leak) on: 299 rows for 1 %. And the gain of a certificate that
moves one latent (β₀ = 0) is zero on all rows but the a on which that latent is on. With codes all alike there, its mean
is about √a standard errors above 0: more than 1.645 from a = 3 on; where codes vary by v, from a = 2.7 (1 + v²) on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from monoseme.core.outcome import Outcome, plural
from monoseme.optimality.columns import Columns

__all__ = ["FAR", "HELD_ON", "ROWS_A_FEATURE", "far_from_optimal", "few_rows", "held_out_needed", "strict_by_chance"]

FAR = 0.1  # of K1-K3, in their units: from there on a note says so
CHANCE = 0.05  # expected pairs that look like absorption, likewise: below it there is none at 95 %
VIOLATED = 0.01  # share of codes that are off and should be on, likewise
ROWS_A_FEATURE = 4  # rows where a feature is off, for each live feature
MOST_ON = 100  # active rows of a latent for which chance is reckoned
HELD_ON = 3  # held-out rows on which a partner must be on


def far_from_optimal(
    kkt: Mapping[str, Outcome], lam: float, learned_bias: bool, resolve: str = "codes='resolved'"
) -> tuple[str, ...]:
    """Return a sentence when K1-K3 are far from 0: verdicts hold for these codes, and those are no optimum.

    `resolve` names what would solve the codes anew.
    """

    def at(name: str) -> float:
        known = kkt.get(name)
        return 0.0 if known is None or known.value is None else known.value

    parts = {"K1 (codes)": at("k1_active"), "K2 (atoms)": at("k2")} | ({"K3 (bias)": at("k3")} if learned_bias else {})
    missed, implied = at("k1_violations"), at("implied_lam")
    if max(parts.values()) <= FAR and missed <= VIOLATED:
        return ()
    shown = ", ".join(f"{name} {round(value, 2):g}" for name, value in parts.items())
    if missed > VIOLATED:
        shown += f", and {missed:.1%} of the codes that are off would pay if on"
    fix = f"Re-solve the codes ({resolve}) where K1 is large; train longer where K2 or K3 is"
    if not lam / 2 <= implied <= 2 * lam:
        behave = f"behave like lam = {implied:.3g}" if implied > 0 else "show no shrinkage"
        fix += f"; or lam is not theirs, for they {behave}"
    said = "verdicts hold for these codes and atoms, which are far from optimal"
    return (f"{said}: {shown} (all 0 at an optimum). {fix}",)


def held_out_needed(leak: float) -> int:
    """Held-out rows without a violator from which the violating share is at most `leak` at 95 %."""
    return math.ceil(math.log(0.05) / math.log1p(-leak)) if 0 < leak < 1 else 1


def strict_by_chance(by: Columns, n: int) -> float:
    """Expected number of pairs of which one is never on without the other, were all latents independent.

    Σ_k Σ_{j≠k} p_j^a_k over live latents with a_k active rows, a_k ≤ 100 (beyond it adds next to nothing).
    """
    on = np.rint(by.density * n).astype(np.int64)
    counts = np.bincount(on[(on > 0) & (on <= MOST_ON)], minlength=1)
    spread = by.density[by.density < 1]  # what is never off has no condition to be strained
    own = sum(counts[a] * (a / n) ** a for a in np.flatnonzero(counts).tolist() if a < n)
    return float(sum(counts[a] * (spread**a).sum() for a in np.flatnonzero(counts).tolist()) - own)


def few_rows(by: Columns, n: int, held: tuple[Columns, int] | None = None, leak: float = 0.01) -> tuple[str, ...]:
    """Return a sentence for each way in which rows are too few for these features.

    Parameters
    ----------
    by, n
        The codes by latent, and the number of rows.
    held
        The same of held-out rows, when verdicts must hold there.
    leak
        Share of held-out rows that may speak against a certificate.
    """
    on = np.rint(by.density * n)
    live = int((on > 0).sum())
    least, said = ROWS_A_FEATURE * live, []
    short = int(((on > 0) & (on < n) & (n - on < least)).sum())
    if short:
        said.append(
            f"few rows: {short:,} of {live:,} live {plural(live, 'features')} are off on fewer than {least:,} rows, "
            f"{ROWS_A_FEATURE} for each live feature; there 'unstable' may come from the rows being few. Give more rows"
        )
    if held is None:
        if (pairs := strict_by_chance(by, n)) > CHANCE:
            said.append(
                f"few rows: were all features independent, {pairs:.2g} pairs would be expected to look like absorption "
                "by chance, because latents are on in too few rows. Give more rows, or about='population'"
            )
        return tuple(said)
    away, m = held
    on_held, needed = np.rint(away.density * m), held_out_needed(leak)
    blind = int(((on > 0) & (m - on_held < needed)).sum())
    of = f"few held-out rows ({m:,}): {{:,}} of {live:,} live {plural(live, 'features')}"
    if blind:
        said.append(
            f"{of.format(blind)} are off on fewer than {needed:,}; at 95 % none of those can be called unstable, as at "
            f"most {leak:.1%} may object. Hold out more"
        )
    silent = int(((on > 0) & (on_held < HELD_ON)).sum())
    if silent:
        said.append(
            f"{of.format(silent)} are on in fewer than {HELD_ON}; no certificate that moves one of those alone can be "
            "confirmed at 95 %. Hold out more"
        )
    return tuple(said)
