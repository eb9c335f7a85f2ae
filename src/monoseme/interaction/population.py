"""What the AOFE and its kin are for the population that the units were drawn from: no bias, and an interval.

With n independent units, each of ‖E G‖², ‖diag E G‖² and tr(E G)² is estimated by the mean over pairs of different
units, for example

    Σ_{i≠j} ⟨G_i, G_j⟩ / n(n - 1) = (‖Σ G_i‖² - Σ ‖G_i‖²) / n(n - 1)

which has no bias (a U-statistic; Hoeffding 1948), also when every G_i is itself an unbiased sketch with probes of its
own. Ratios are ratios of such parts. The plug-in, ‖mean G_i‖², is too large by E‖G_i - G‖²/n. Standard errors: the
jackknife over groups of units; intervals: Student's t on the logarithm (AOFE, PR) or the logit (shares) where the
estimate allows it, since AOFE is skewed with few units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from monoseme.core.outcome import Outcome, unknown
from monoseme.interaction.factors import FactorSums

__all__ = ["ENERGIES", "Parts", "outcome_of", "population_energies"]

Parts = Mapping[str, float]

# name: unit, scale on which the interval is symmetric, value from whole = ‖E G‖², diagonal, trace² and trace
ENERGIES: dict[str, tuple[str, str, Callable[[Parts], float]]] = {
    "trace": ("gradient²", "log", lambda p: p["trace"]),
    "aofe": ("gradient⁴", "log", lambda p: p["whole"] - p["diagonal"]),
    "aofe_ratio": ("share", "logit", lambda p: (p["whole"] - p["diagonal"]) / p["whole"]),
    "mean_cos2": ("share", "logit", lambda p: (p["whole"] - p["diagonal"]) / (p["trace2"] - p["diagonal"])),
    "normalised_aofe": ("share", "logit", lambda p: (p["whole"] - p["diagonal"]) / p["trace2"]),
    "participation_ratio": ("directions", "log", lambda p: p["trace2"] / p["whole"]),
    "rotation_baseline": ("share", "plain", lambda p: 1 - (p["trace2"] / p["whole"] + 2) / (p["width"] + 2)),
    "excess": (
        "1",
        "plain",
        lambda p: (p["whole"] - p["diagonal"]) / p["whole"] - 1 + (p["trace2"] / p["whole"] + 2) / (p["width"] + 2),
    ),
}


def population_energies(sums: FactorSums, confidence: float = 0.95) -> dict[str, Outcome]:
    """Unbiased estimates of every energy, each with the interval of its jackknife.

    Needs two units for a value, and 8 groups of units for an interval.
    """
    if sums.n < 2:
        return {name: unknown(name, unit, "two units are needed") for name, (unit, _, _) in ENERGIES.items()}
    totals, squares = sums.totals.numpy(), sums.squares.numpy()
    live = np.flatnonzero(squares[0])
    whole = _estimates(totals.sum(0), squares.sum(1))
    without = []
    if len(live) >= 8 and squares[0].sum() - squares[0].max() >= 2:
        every = totals.sum(0)
        without = [_estimates(every - totals[g], squares.sum(1) - squares[:, g]) for g in live]
    return {name: outcome_of(name, whole, without, sums.n, confidence) for name in ENERGIES}


def _estimates(total: np.ndarray, squares: np.ndarray) -> dict[str, float]:
    """The unbiased parts from Σ G_i and the sums of squares."""
    n, own, own_diagonal, own_trace = squares
    diagonal, pairs = np.diag(total), n * (n - 1)
    return {
        "whole": (float(np.square(total).sum()) - own) / pairs,
        "diagonal": (float(diagonal @ diagonal) - own_diagonal) / pairs,
        "trace2": (float(diagonal.sum()) ** 2 - own_trace) / pairs,
        "trace": float(diagonal.sum()) / n,
        "width": float(len(total)),
    }


def outcome_of(name: str, parts: Parts, without: list[dict[str, float]], n: int, confidence: float) -> Outcome:
    """One energy from the unbiased parts of all units and, for the interval, those without each group in turn."""
    unit, scale, of = ENERGIES[name]
    if name not in ("trace", "aofe") and not (parts["whole"] > 0 and parts["trace2"] > 0):
        return unknown(name, unit, "the unbiased energy is not above 0: too few units")
    value = of(parts)
    note = "unbiased over pairs of units"
    if not without:
        return Outcome(
            name, value, unit, n=n, n_unit="units", note=f"{note}; no interval: fewer than 8 groups of units"
        )
    with np.errstate(all="ignore"):
        left = np.array([of(p) if p["whole"] > 0 else np.nan for p in without])
        error, low, high = _jackknife(value, left, scale, confidence)
    if error is None:
        return Outcome(name, value, unit, n=n, n_unit="units", note=f"{note}; no interval: a group decides the sign")
    return Outcome(name, value, unit, low, high, n=n, n_unit="units", note=f"{note}; standard error {error:.3g}")


def _jackknife(
    value: float, left: np.ndarray, scale: str, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """Standard error, and the t interval on the scale where it is symmetric; plain where that scale has no room."""
    from scipy.stats import t

    m = len(left)
    if not np.isfinite(left).all():
        return None, None, None
    reach = float(t.ppf(0.5 + confidence / 2, m - 1))
    error = float(np.sqrt((m - 1) / m * np.square(left - left.mean()).sum()))
    to, back = {"log": (np.log, np.exp), "logit": (_logit, _logistic), "plain": (np.copy, np.copy)}[scale]
    inside = np.append(left, value)
    if scale != "plain" and (inside.min() <= 0 or (scale == "logit" and inside.max() >= 1)):
        to = back = np.copy
    turned, middle = to(left), float(to(np.array([value]))[0])
    half = reach * float(np.sqrt((m - 1) / m * np.square(turned - np.mean(turned)).sum()))
    low, high = back(np.array([middle - half, middle + half]))
    return error, float(low), float(high)


def _logit(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
