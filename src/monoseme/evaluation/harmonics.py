"""Harmonics of a block along a known circular variable: orientation, hue, time of day.

A ring in a plane is one harmonic. A block whose path bends through more dimensions has higher ones too, and noise has a
little of all: the floor is what white noise of the same energy gives a harmonic. Of n angles, a share s of the energy
that is white noise puts 2 s ÷ (n - 1) into each: that is twice what arXiv 2606.25234 (app. E) writes down, and what its
table shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng

__all__ = ["Harmonics", "harmonics", "spectrum"]

DRAWS = 200


@dataclass(frozen=True, eq=False)
class Harmonics:
    """Of a block along a circular variable.

    Attributes
    ----------
    shares
        Share of the energy that varies with the variable in harmonics 1, 2, …
    noise
        Share of it that is noise, from the upper half of the spectrum.
    floor
        What white noise of that share gives one harmonic.
    null_mean, null_deviation
        Of each harmonic's share when only the first harmonic and matched white noise are there: 200 draws.
    coverage
        Share of the circle on which the block is at least half as present as where it is most.
    angles
        Number of angles n.
    """

    shares: Float64[np.ndarray, " h"]
    noise: float
    floor: float
    null_mean: Float64[np.ndarray, " h"]
    null_deviation: Float64[np.ndarray, " h"]
    coverage: float
    angles: int

    @property
    def ratios(self) -> Float64[np.ndarray, " h"]:
        """Shares ÷ floor; infinite without noise."""
        return np.divide(self.shares, self.floor, out=np.full(len(self.shares), np.inf), where=self.floor > 0)

    @property
    def deviations(self) -> Float64[np.ndarray, " h"]:
        """How many deviations of the null each share lies above its mean."""
        away = self.shares - self.null_mean
        return np.divide(away, self.null_deviation, out=np.full(len(away), np.inf), where=self.null_deviation > 0)


def harmonics(
    values: Float64[np.ndarray, "n b"],
    angles: Float64[np.ndarray, " m"],
    *,
    many: int = 4,
    bins: int | None = None,
    seed: int = 0,
) -> Harmonics:
    """Analyse the coordinates of a block, or its contributions, at known angles.

    Parameters
    ----------
    values
        A row an observation; 0 where the block is silent.
    angles
        Radians. Without `bins` they are one observation at each of n equally spaced angles, in any order.
    many
        Harmonics to report.
    bins
        Average observations in so many equal parts of the circle first; none may be empty.

    Raises
    ------
    UserError
        Angles that are not equally spaced without bins, an empty bin, values that do not vary.
    """
    curve = _curve(np.asarray(values, dtype=np.float64), np.asarray(angles, dtype=np.float64), bins)
    n = len(curve)
    if not 1 <= many <= (n - 1) // 4:
        raise refuse("many", f"lie in 1..{(n - 1) // 4}, a quarter of the angles", many, "Measure more angles.")
    powers = spectrum(curve)
    total = float(powers.sum())
    if total <= 1e-24 * max(float(np.square(curve).sum()), 1e-300):
        raise refuse("values", "vary with the angle", "constant ones", "Is it the right block?")
    # the upper half of the spectrum is noise; what it has, the lower half has too
    upper = powers[len(powers) // 2 :]
    noise = min(float(upper.mean()) * len(powers) / total, 1.0)
    mean, deviation = _null(n, curve.shape[1], many, noise, seed)
    presence = np.linalg.norm(curve, axis=1)
    coverage = float((presence >= presence.max() / 2).mean())
    return Harmonics(powers[:many] / total, noise, 2 * noise / (n - 1), mean, deviation, coverage, n)


def spectrum(curve: Float64[np.ndarray, "n b"]) -> Float64[np.ndarray, " h"]:
    """Energy of harmonics 1, 2, … up to half of n, over coordinates; their sum is that of the curve minus its mean."""
    n = len(curve)
    found = np.square(np.abs(np.fft.rfft(curve, axis=0))).sum(1)[1:] * 2 / n
    if n % 2 == 0:
        found[-1] /= 2  # the last one has no twin
    return found


def _curve(
    values: Float64[np.ndarray, "n b"], angles: Float64[np.ndarray, " m"], bins: int | None
) -> Float64[np.ndarray, "k b"]:
    if values.ndim != 2 or len(values) != len(angles) or not (np.isfinite(values).all() and np.isfinite(angles).all()):
        raise refuse("values", "be finite, a row an angle", f"{values.shape}, {angles.shape}", "Give both alike.")
    turned = np.mod(angles, 2 * np.pi)
    if bins is None:
        order = np.argsort(turned, kind="stable")
        steps = np.diff(np.concatenate([turned[order], turned[order][:1] + 2 * np.pi]))
        if np.abs(steps - 2 * np.pi / len(steps)).max() > 1e-6 * steps.mean():
            raise refuse("angles", "be equally spaced around the circle", "others", "Give bins=.")
        return values[order]
    at = np.minimum((turned / (2 * np.pi) * bins).astype(np.int64), bins - 1)
    counts = np.bincount(at, minlength=bins)
    if (counts == 0).any():
        raise refuse("bins", "all hold an observation", f"{int((counts == 0).sum())} empty of {bins}", "Take fewer.")
    return np.stack([np.bincount(at, weights=column, minlength=bins) / counts for column in values.T], 1)


def _null(n: int, b: int, many: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares when the first harmonic has 1 - noise of the energy and white noise in b coordinates the rest."""
    stream, theta = rng(seed, "harmonics"), 2 * np.pi * np.arange(n) / n
    ring = np.zeros((n, max(b, 2)))
    ring[:, 0], ring[:, 1] = np.cos(theta), np.sin(theta)
    found = []
    for _ in range(DRAWS):
        white = stream.normal(size=(n, b))
        white *= np.sqrt(n / max(float(np.square(white - white.mean(0)).sum()), 1e-300))
        mixed = np.sqrt(1 - noise) * ring
        mixed[:, :b] += np.sqrt(noise) * white
        powers = spectrum(mixed)
        found.append(powers[:many] / powers.sum())
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
