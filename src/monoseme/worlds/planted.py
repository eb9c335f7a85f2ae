"""A world: rows that sum a few points on known manifolds, x = Σ_{i∈S} m_i + ε (arXiv 2606.25234, §2, App. H)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import derive, rng
from monoseme.worlds.shapes import CURVED, Manifold, Segment

__all__ = ["Factor", "Sample", "World", "manifolds"]

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

    def standard(self, coordinates: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n b"]:
        """Points in the span, centred and with RMS norm 1."""
        return (self.manifold.embed(coordinates) - self.centre) / self.spread


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a world, with everything that made them. Contributions are computed when asked for, one factor at a time.

    Attributes
    ----------
    world
        Where the rows come from.
    seed
        The seed they were drawn with.
    x
        (n, d) float32 rows.
    support
        (n, |S|) active factors of each row, ascending.
    coordinates
        One (m_i, d_i) array a factor: its intrinsic coordinates on the rows where it is active, in order of rows.
    """

    world: World
    seed: int
    x: Float32[Tensor, "n d"]
    support: Int[Tensor, "n s"]
    coordinates: tuple[Float64[np.ndarray, "_ _"], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def active(self) -> Bool[Tensor, "n M"]:
        """Mask of the active factors, written out: n · M bytes."""
        mask = torch.zeros(len(self), len(self.world.factors), dtype=torch.bool)
        return mask.scatter_(1, self.support, True)

    @cached_property
    def _by_factor(self) -> tuple[Tensor, ...]:
        return _rows_by_factor(self.support, len(self.world.factors))

    def rows(self, factor: int) -> Int[Tensor, " m"]:
        """Rows on which `factor` is active, ascending."""
        return self._by_factor[factor]

    def contribution(self, factor: int) -> Float64[Tensor, "m d"]:
        """The part m_i of each row of ``rows(factor)`` that `factor` made, in the units of `x`, float64."""
        return torch.from_numpy(self.world.contribution(factor, self.coordinates[factor]))


@dataclass(frozen=True, eq=False)
class World:
    """Factors, how many of them act at once, and how loudly. Make one with `manifolds`.

    Attributes
    ----------
    d_in
        Width of a row.
    factors
        The known parts.
    n_active
        Factors active on every row, drawn uniformly without replacement.
    seed
        The seed of the factors; samples have seeds of their own.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    """

    d_in: int
    factors: tuple[Factor, ...] = field(repr=False)
    n_active: int
    seed: int
    noise: float = 0.0

    @property
    def gain(self) -> float:
        """RMS norm of one contribution. Contributions are centred and independent, so E‖x‖² = |S| gain² + noise = 1."""
        return math.sqrt((1 - self.noise) / self.n_active)

    def contribution(self, factor: int, coordinates: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n d"]:
        """Place points of one factor, given by intrinsic coordinates, in the space of the rows."""
        part = self.factors[factor]
        return (self.gain * part.standard(coordinates)) @ part.basis

    def sample(self, n: int, seed: int) -> Sample:
        """Draw `n` rows. The same (world, n, seed) gives the same rows; different seeds give independent ones.

        Parameters
        ----------
        n
            Number of rows.
        seed
            Seed of the rows. The streams also depend on the world's own seed.

        Raises
        ------
        UserError
            `n` is below 1.
        """
        if n < 1:
            raise refuse("n", "be at least 1", n, "Ask for some rows.")
        root = derive(self.seed, "sample", seed)
        support = _subsets(rng(root, "support"), n, len(self.factors), self.n_active)
        x = np.zeros((n, self.d_in), dtype=np.float32)
        coordinates = []
        for i, rows in enumerate(_rows_by_factor(support, len(self.factors))):
            coordinates.append(self.factors[i].manifold.draw(rng(root, "coordinates", i), len(rows)))
            x[rows.numpy()] += self.contribution(i, coordinates[i]).astype(np.float32)
        if self.noise:
            x += math.sqrt(self.noise / self.d_in) * rng(root, "noise").standard_normal(x.shape, dtype=np.float32)
        return Sample(self, seed, torch.from_numpy(x), support, tuple(coordinates))


def _subsets(stream: np.random.Generator, n: int, size: int, k: int) -> Int[Tensor, "n k"]:
    """`n` uniform k-subsets of 0..size−1, each ascending (Floyd's algorithm: k draws a row, no n × size table)."""
    chosen = np.empty((n, k), dtype=np.int64)
    for step, top in enumerate(range(size - k, size)):
        draw = stream.integers(0, top + 1, n)
        taken = (chosen[:, :step] == draw[:, None]).any(1)
        chosen[:, step] = np.where(taken, top, draw)
    return torch.from_numpy(np.sort(chosen, axis=1))


def _rows_by_factor(support: Int[Tensor, "n s"], n_factors: int) -> tuple[Tensor, ...]:
    flat = support.flatten()
    rows = torch.argsort(flat, stable=True) // support.shape[1]
    return torch.split(rows, torch.bincount(flat, minlength=n_factors).tolist())


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
    return World(d, tuple(_plant(manifold, d, seed, i) for i, manifold in enumerate(types)), active, seed, noise)
