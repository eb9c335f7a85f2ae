"""A world: rows that sum a few known parts, x = offset + Σ_{i∈S} m_i + ε. A world is parts × activity × noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.seeds import derive, rng
from monoseme.core.support import Support
from monoseme.worlds.activity import Activity

__all__ = ["Part", "Sample", "World", "unit_gain"]


@runtime_checkable
class Part(Protocol):
    """One known part: `planted.Factor` on a manifold, or `concepts.Concept` on a ray."""

    @property
    def kind(self) -> str:
        """Name of its type, by which numbers are grouped."""
        ...

    @property
    def d(self) -> int:
        """Intrinsic dimension."""
        ...

    @property
    def b(self) -> int:
        """Dimension of the span."""
        ...

    @property
    def basis(self) -> Float64[np.ndarray, "b d_in"]:
        """Orthonormal rows that span it."""
        ...

    @property
    def mean(self) -> Float64[np.ndarray, " b"]:
        """E of its standard points, given that it is active."""
        ...

    @property
    def square(self) -> float:
        """E of their squared norm, given that it is active."""
        ...

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, "n d"]:
        """Intrinsic coordinates of `n` points."""
        ...

    def standard(self, coordinates: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n b"]:
        """Points in the span, before the world's gain."""
        ...


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
        Active factors of each row, ascending; rows may have different numbers of them.
    coordinates
        One (m_i, d_i) array a factor: its intrinsic coordinates on the rows where it is active, in order of rows.
    """

    world: World
    seed: int
    x: Float32[Tensor, "n d"]
    support: Support
    coordinates: tuple[Float64[np.ndarray, "_ _"], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def active(self) -> Bool[Tensor, "n M"]:
        """Mask of the active factors, written out: n · M bytes."""
        return self.support.to_mask()

    @cached_property
    def _by_factor(self) -> tuple[Tensor, ...]:
        return _split(self.support)

    def rows(self, factor: int) -> Int[Tensor, " m"]:
        """Rows on which `factor` is active, ascending."""
        return self._by_factor[factor]

    def contribution(self, factor: int) -> Float64[Tensor, "m d"]:
        """The part m_i of each row of ``rows(factor)`` that `factor` made, in the units of `x`, float64."""
        return torch.from_numpy(self.world.contribution(factor, self.coordinates[factor]))

    @cached_property
    def code(self) -> Code:
        """The true code, float64: ``code @ world.atoms + world.offset`` is x without its noise.

        Blocks are the factors, their size that of the widest span; coordinates of a narrower one are padded with zeros.
        """
        order = self.support.by_block[1]
        parts, width = self.world.factors, self.world.width
        points = [
            np.pad(self.world.gain * part.standard(at), ((0, 0), (0, width - part.b)))
            for part, at in zip(parts, self.coordinates, strict=True)
        ]
        values = torch.empty(len(order), width, dtype=torch.float64)
        values[order] = torch.from_numpy(np.concatenate(points))
        return Code(self.support.indptr, self.support.indices, values, len(parts))


@dataclass(frozen=True, eq=False)
class World:
    """Known parts, the law of which of them act together, and how loudly.

    Make one with `manifolds`, or with `independent`, `exclusive`, `hierarchical`, `dense`.

    Attributes
    ----------
    d_in
        Width of a row.
    factors
        The known parts.
    activity
        Which of them act on a row.
    seed
        The seed of the factors; samples have seeds of their own.
    gain
        What every part's standard points are multiplied by, so that E‖x‖² = 1.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    offset
        (d,) added to every row, e.g. to centre them; None is zero.
    """

    d_in: int
    factors: tuple[Part, ...] = field(repr=False)
    activity: Activity = field(repr=False)
    seed: int
    gain: float
    noise: float = 0.0
    offset: Float64[np.ndarray, " d"] | None = field(default=None, repr=False)

    @property
    def width(self) -> int:
        """Dimension of the widest span."""
        return max(part.b for part in self.factors)

    @cached_property
    def atoms(self) -> Float64[Tensor, "M b d"]:
        """The true directions: orthonormal rows of every span, zeros where one is narrower than the widest."""
        atoms = torch.zeros(len(self.factors), self.width, self.d_in, dtype=torch.float64)
        for i, part in enumerate(self.factors):
            atoms[i, : part.b] = torch.from_numpy(part.basis)
        return atoms

    @cached_property
    def density(self) -> Float64[np.ndarray, " M"]:
        """P(factor is active), exactly."""
        return np.diagonal(self.activity.pairs()).copy()

    @cached_property
    def mean(self) -> Float64[np.ndarray, " d"]:
        """E x, exactly."""
        rest = 0.0 if self.offset is None else self.offset
        return self.gain * self.density @ np.stack([part.mean @ part.basis for part in self.factors]) + rest

    def centred(self) -> World:
        """Return this world with rows of mean zero, scaled anew so that E‖x‖² = 1. Contributions stay as they are."""
        gain = unit_gain(self.factors, self.activity, self.noise, centred=True)
        bare = replace(self, gain=gain, offset=None)
        return replace(bare, offset=-bare.mean)

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
        support = self.activity.draw(rng(root, "support"), n)
        x = np.zeros((n, self.d_in), dtype=np.float32)
        coordinates = []
        for i, rows in enumerate(_split(support)):
            coordinates.append(self.factors[i].draw(rng(root, "coordinates", i), len(rows)))
            x[rows.numpy()] += self.contribution(i, coordinates[i]).astype(np.float32)
        if self.offset is not None:
            x += self.offset.astype(np.float32)
        if self.noise:
            x += math.sqrt(self.noise / self.d_in) * rng(root, "noise").standard_normal(x.shape, dtype=np.float32)
        return Sample(self, seed, torch.from_numpy(x), support, tuple(coordinates))


def unit_gain(parts: Sequence[Part], activity: Activity, noise: float, centred: bool = False) -> float:
    """Gain at which E‖x‖² = 1, in closed form: parts are independent given which are active.

    E‖Σ m_i‖² = Σ_i p_i E‖m_i‖² + Σ_{i≠j} p_ij ⟨E m_i, E m_j⟩, with ‖Σ p_i E m_i‖² less when rows are centred.
    """
    both = activity.pairs()
    means = np.stack([part.mean @ part.basis for part in parts])
    p, own = np.diagonal(both), np.square(means).sum(1)
    energy = float(p @ np.array([part.square for part in parts]) + np.sum((both @ means) * means) - p @ own)
    if centred:
        energy -= float(np.square(p @ means).sum())
    if not energy > 1e-12:
        raise refuse("world", "have rows that vary", f"E‖x‖² = {energy:.2g}", "Lower a probability or choose a law.")
    return math.sqrt((1 - noise) / energy)


def _split(support: Support) -> tuple[Int[Tensor, " m"], ...]:
    """Rows of every factor."""
    pointer, order = support.by_block
    return torch.split(support.rows[order], pointer.diff().tolist())
