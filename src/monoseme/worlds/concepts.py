"""Scalar worlds: concepts that are directions, with a law of which of them are on and how strongly.

    x = gain · Σ_i s_i a_i 1{i on} w_i + ε,   ‖w_i‖ = 1

a_i is drawn from the magnitude's law for every row and concept on which it is on, independently of everything else; s_i
is a scale relative to the other concepts. `gain` makes E‖x‖² = 1 and is computed from the laws, not from data.
Contributions and rows have the mean the law gives them; ``world.centred()`` subtracts the rows'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.worlds.activity import Activity, Exclusive, Independent
from monoseme.worlds.directions import around, unit_rows
from monoseme.worlds.laws import Law, Uniform
from monoseme.worlds.world import World, unit_gain

__all__ = [
    "SPREAD",
    "Concept",
    "assemble",
    "check_cosine",
    "check_sizes",
    "dense",
    "exclusive",
    "independent",
    "probabilities",
]
SPREAD = Uniform(0.5, 1.5)  # on is well apart from off, and a magnitude is worth predicting


@dataclass(frozen=True, eq=False)
class Concept:
    """One known direction.

    Attributes
    ----------
    kind
        Its role in the world.
    magnitude
        Law of a, given that the concept is on.
    direction
        (d,) unit vector.
    scale
        What a is multiplied by, beside the world's gain.
    """

    kind: str
    magnitude: Law
    direction: Float64[np.ndarray, " d"] = field(repr=False)
    scale: float = 1.0
    d: int = 1
    b: int = 1

    @property
    def basis(self) -> Float64[np.ndarray, "1 d"]:
        """The direction as a matrix."""
        return self.direction[None, :]

    @property
    def mean(self) -> Float64[np.ndarray, " b"]:
        """E s a."""
        return np.array([self.scale * self.magnitude.mean])

    @property
    def square(self) -> float:
        """E (s a)²."""
        return self.scale**2 * self.magnitude.square

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, "n 1"]:
        """Draw `n` magnitudes a."""
        return self.magnitude.draw(stream, n)[:, None]

    def standard(self, coordinates: Float64[np.ndarray, "n 1"]) -> Float64[np.ndarray, "n 1"]:
        """Return s a."""
        return self.scale * coordinates


def independent(
    d: int = 128,
    n_concepts: int = 128,
    p: float | Sequence[float] = 0.05,
    magnitude: Law = SPREAD,
    cosine: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
) -> World:
    """Every concept is on with its own probability, whatever the others do.

    Parameters
    ----------
    d
        Width of a row.
    n_concepts
        Number of concepts, M.
    p
        P(on), one for all or one each, in (0, 1].
    magnitude
        Law of a.
    cosine
        Between any two directions, in [0, 1). Exact when M + 1 ≤ d (M ≤ d at 0); else the mean over pairs in
        expectation, with standard deviation about (1 − cosine)/√d.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    seed
        Seed of the directions.

    Raises
    ------
    UserError
        A size, probability, cosine or share outside its range.

    Examples
    --------
    >>> world = independent(d=32, n_concepts=16, p=0.25, seed=0)
    >>> sample = world.sample(1000, seed=1)
    >>> sample.code
    Code(rows (1000,), 16 blocks of size 1, 3,963 active)
    """
    check_sizes(d, noise, n_concepts=n_concepts)
    probability = probabilities(p, n_concepts)
    directions = _bundles(d, n_concepts, 1, cosine, seed)
    concepts = [Concept("concept", magnitude, w) for w in directions]
    return assemble(d, concepts, Independent(probability), noise, seed)


def exclusive(
    d: int = 128,
    groups: int = 32,
    size: int = 4,
    on: float = 0.2,
    magnitude: Law = SPREAD,
    cosine: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
) -> World:
    """Groups of concepts of which at most one is on; groups are independent, members equally likely.

    Parameters
    ----------
    d
        Width of a row.
    groups, size
        Number of groups, and concepts in each; concept i belongs to group i // size.
    on
        P(one member of a group is on), in (0, 1]. At 1 a group is exhaustive: some member always is.
    magnitude
        Law of a.
    cosine
        Between members of one group, in [0, 1); members of different groups are orthogonal. Exact when all directions
        and one centre a group fit into d, else in expectation, see `independent`.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    seed
        Seed of the directions.

    Raises
    ------
    UserError
        A size, probability, cosine or share outside its range.
    """
    check_sizes(d, noise, groups=groups, size=size)
    probability = probabilities(on, groups, "on").repeat(size) / size
    directions = _bundles(d, size, groups, cosine, seed)
    concepts = [Concept("member", magnitude, w) for w in directions]
    return assemble(d, concepts, Exclusive(probability, np.arange(groups).repeat(size)), noise, seed)


def dense(
    d: int = 128,
    n_dense: int = 4,
    p_dense: float | Sequence[float] = 0.8,
    n_sparse: int = 60,
    p_sparse: float | Sequence[float] = 0.05,
    magnitude: Law = SPREAD,
    noise: float = 0.0,
    seed: int = 0,
) -> World:
    """A few concepts that are on for most rows, first, among sparse ones; all independent.

    The case in which a nonnegative code with a learned bias wants an antipodal pair, at P(on) > 1/2.

    Parameters
    ----------
    d
        Width of a row.
    n_dense, p_dense
        Number of dense concepts, and P(on), one for all or one each.
    n_sparse, p_sparse
        The same of the sparse ones.
    magnitude
        Law of a, of all. A constant dense concept is nearly an offset; a spread one is not.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    seed
        Seed of the directions: orthonormal when they fit into d.

    Raises
    ------
    UserError
        A size, probability or share outside its range.
    """
    check_sizes(d, noise, n_dense=n_dense, n_sparse=n_sparse)
    p = np.concatenate([probabilities(p_dense, n_dense, "p_dense"), probabilities(p_sparse, n_sparse, "p_sparse")])
    directions = unit_rows(n_dense + n_sparse, d, rng(seed, "directions"))
    concepts = [Concept("dense" if i < n_dense else "sparse", magnitude, w) for i, w in enumerate(directions)]
    return assemble(d, concepts, Independent(p), noise, seed)


def assemble(d: int, concepts: Sequence[Concept], activity: Activity, noise: float, seed: int) -> World:
    """Scale concepts to E‖x‖² = 1."""
    return World(d, tuple(concepts), activity, seed, unit_gain(concepts, activity, noise), noise)


def _bundles(d: int, size: int, groups: int, cosine: float, seed: int) -> Float64[np.ndarray, "m d"]:
    """`groups` bundles of `size` unit vectors, any two of one bundle at `cosine`: at √cosine to a shared centre."""
    check_cosine(cosine)
    count = size * groups
    frame = unit_rows(count + (groups if cosine else 0), d, rng(seed, "directions"))
    if not cosine:
        return frame
    return around(frame[count:], np.arange(groups).repeat(size), frame[:count], math.sqrt(cosine))


def check_sizes(d: int, noise: float, **counts: int) -> None:
    """Refuse sizes of which no world can be made."""
    for name, count in counts.items():
        if count < 1:
            raise refuse(name, "be at least 1", count, "A world needs a part.")
    if d < 2:
        raise refuse("d", "be at least 2", d, "Directions in one dimension cannot be told apart.")
    if not 0 <= noise < 1:
        raise refuse("noise", "lie in [0, 1), a share of E‖x‖²", noise, "0 is no noise.")


def check_cosine(cosine: float) -> None:
    """Refuse cosines outside [0, 1)."""
    if not 0 <= cosine < 1:
        raise refuse("cosine", "lie in [0, 1)", cosine, "0 is orthogonal where there is room.")


def probabilities(p: float | Sequence[float], count: int, name: str = "p") -> Float64[np.ndarray, " m"]:
    """One probability for each of `count` parts."""
    values = np.asarray(p, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(count, float(values))
    if values.shape != (count,):
        raise refuse(name, f"be one number or {count}", values.shape, "Give one for all, or one for each.")
    if not ((values > 0) & (values <= 1)).all():
        raise refuse(name, "lie in (0, 1]", p, "It is the share of rows on which a part acts.")
    return values
