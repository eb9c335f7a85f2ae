"""Parts on known manifolds, and the benchmark made of them: x = Σ_{i∈S} m_i + ε (arXiv 2606.25234, §2, App. H)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.worlds.activity import Exactly
from monoseme.worlds.shapes import CURVED, Manifold, Segment
from monoseme.worlds.world import World

__all__ = ["Factor", "manifolds"]

CALIBRATION_POINTS = 50_000  # the paper's number, per instance


@dataclass(frozen=True, eq=False)
class Factor:
    """One known part: a manifold, centred, scaled to RMS norm 1, and turned into a random b-dimensional span.

    Attributes
    ----------
    manifold
        Its type, with its ranges.
    centre
        (b,) mean of γ over the calibration points.
    spread
        √E‖γ − centre‖² over the same points.
    basis
        (b, d) orthonormal rows V. A contribution is gain · (γ − centre) / spread · V.
    """

    manifold: Manifold
    centre: Float64[np.ndarray, " b"]
    spread: float
    basis: Float64[np.ndarray, "b d"] = field(repr=False)

    @property
    def kind(self) -> str:
        """Name of the type."""
        return self.manifold.kind

    @property
    def d(self) -> int:
        """Intrinsic dimension."""
        return self.manifold.d

    @property
    def b(self) -> int:
        """Dimension of the span."""
        return self.manifold.b

    @property
    def mean(self) -> Float64[np.ndarray, " b"]:
        """Zero, by calibration."""
        return np.zeros(self.b)

    @property
    def square(self) -> float:
        """1, by calibration."""
        return 1.0

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, "n c"]:
        """Intrinsic coordinates of `n` points."""
        return self.manifold.draw(stream, n)

    def standard(self, coordinates: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n b"]:
        """Points in the span, centred and with RMS norm 1."""
        return (self.manifold.embed(coordinates) - self.centre) / self.spread


def _plant(manifold: Manifold, d_in: int, seed: int, index: int) -> Factor:
    points = manifold.embed(manifold.draw(rng(seed, "calibrate", index), CALIBRATION_POINTS))
    centre = points.mean(0)
    spread = math.sqrt(np.square(points - centre).sum(1).mean())
    gaussian = rng(seed, "basis", index).normal(size=(d_in, manifold.b))
    return Factor(manifold, centre, spread, np.ascontiguousarray(np.linalg.qr(gaussian)[0].T))


def manifolds(
    d: int = 128,
    n_factors: int = 128,
    active: int = 4,
    seed: int = 0,
    noise: float = 0.0,
    curved: Sequence[Manifold] = CURVED,
) -> World:
    """Plant the synthetic benchmark of Block-Sparse Featurizers; the defaults are the paper's size.

    Half of the factors are segments (64 of 128), the others cycle through the curved types. Every factor is calibrated
    on 50,000 points of its own to mean 0 and RMS norm 1 and given a random span (QR of a Gaussian matrix); all are
    scaled together so that E‖x‖² = 1.

    Parameters
    ----------
    d
        Width of a row.
    n_factors
        Number of factors; of an odd number the larger half is segments.
    active
        Factors active on every row (L0), drawn uniformly without replacement.
    seed
        Seed of spans and calibration. No global generator is read or moved.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise, 0 in the paper.
    curved
        Types to cycle through, with their ranges: ``[Circle(), Torus(minor=1.0)]``.

    Raises
    ------
    UserError
        A size that does not fit: no factor, more active than there are, a span wider than a row, noise outside [0, 1).

    References
    ----------
    arXiv 2606.25234, App. H. What the paper leaves open is listed with the choices made in docs/worlds.md.

    Examples
    --------
    >>> world = manifolds(d=16, n_factors=8, active=2, seed=0)
    >>> [factor.kind for factor in world.factors]
    ['segment', 'segment', 'segment', 'segment', 'circle', 'disk', 'sphere', 'torus']
    >>> tuple(world.sample(100, seed=1).x.shape)
    (100, 16)
    """
    n_curved = n_factors // 2
    if n_factors < 1:
        raise refuse("n_factors", "be at least 1", n_factors, "A world needs a part.")
    if not 1 <= active <= n_factors:
        raise refuse("active", f"lie in 1..{n_factors}, the number of factors", active, "Lower it or plant more.")
    if not 0 <= noise < 1:
        raise refuse("noise", "lie in [0, 1), a share of E‖x‖²", noise, "0 is the paper's.")
    if n_curved and not curved:
        raise refuse("curved", "name at least one type", "none", "Leave it out for the paper's seven.")
    types = [Segment()] * (n_factors - n_curved) + [curved[i % len(curved)] for i in range(n_curved)]
    widest = max(manifold.b for manifold in types)
    if d < widest:
        raise refuse("d", f"be at least {widest}, the widest span of a factor", d, "Raise d or choose other types.")
    factors = tuple(_plant(manifold, d, seed, i) for i, manifold in enumerate(types))
    # contributions are centred, independent and of RMS norm `gain`, so E‖x‖² = |S| gain² + noise = 1
    gain = math.sqrt((1 - noise) / active)
    return World(d, factors, Exactly(n_factors, active), seed, gain, noise)
