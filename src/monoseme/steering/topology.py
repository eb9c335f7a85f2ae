"""Which shape a block's codes have, by persistent homology: how many loops live much longer than the rest.

Rips complexes on a few hundred landmarks, far from one another. One long loop: a ring. Two: a torus. None: a line or a
grid, as one dimension has most of the variance or not. It is a guess with its reasons, and can be overruled by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng

__all__ = ["TOPOLOGIES", "Topology", "find_topology", "landmarks"]

TOPOLOGIES = ("line", "ring", "grid", "torus")
LANDMARKS = 200
LONG = 0.3  # of a loop's life, as share of the diameter, from which on it counts
CLEAR = 2.0  # times the next shorter loop
ONE = 1.3  # participation ratio up to which there is one dimension


@dataclass(frozen=True)
class Topology:
    """A shape, and why.

    Attributes
    ----------
    name
        ``"line"``, ``"ring"``, ``"grid"`` or ``"torus"``.
    loops
        Lives of loops (death - birth) ÷ diameter, longest first.
    dimension
        Participation ratio of the covariance.
    why
        In words.
    """

    name: str
    loops: tuple[float, ...]
    dimension: float
    why: str


def find_topology(codes: Float64[np.ndarray, "n b"], *, many: int = LANDMARKS, seed: int = 0) -> Topology:
    """Guess the shape of a block's codes where it fires.

    Raises
    ------
    UserError
        ripser is not installed, fewer than 8 different codes.
    """
    try:
        from ripser import ripser
    except ImportError:
        fix = 'pip install "monoseme[steering]", or say topology="ring" yourself.'
        raise refuse("topology", "be found by ripser", "not installed", fix) from None
    x = np.asarray(codes, dtype=np.float64)
    chosen = x[landmarks(x, many, seed)]
    if len(chosen) < 8:
        raise refuse("codes", "hold at least 8 different ones", len(chosen), "Does the block fire often enough?")
    apart = np.linalg.norm(chosen[:, None] - chosen[None], axis=2)
    diagram = ripser(apart, maxdim=1, distance_matrix=True)["dgms"][1]
    lives = np.sort((diagram[:, 1] - diagram[:, 0]) / apart.max())[::-1]
    lives = lives[np.isfinite(lives)]
    values = np.linalg.eigvalsh(np.cov(x.T).reshape(x.shape[1], x.shape[1])).clip(min=0)
    dimension = float(values.sum() ** 2 / np.square(values).sum())
    name, why = _name(lives, dimension)
    return Topology(name, tuple(float(v) for v in lives[:4]), dimension, why)


def _name(lives: Float64[np.ndarray, " l"], dimension: float) -> tuple[str, str]:
    first, second, third = (float(lives[i]) if len(lives) > i else 0.0 for i in range(3))
    if second >= LONG and second >= CLEAR * third:
        return "torus", f"two loops of {first:.2f} and {second:.2f} diameters, the next {third:.2f}"
    if first >= LONG and first >= CLEAR * second:
        return "ring", f"one loop of {first:.2f} diameters, the next {second:.2f}"
    kind = "line" if dimension <= ONE else "grid"
    return kind, f"no clear loop (longest {first:.2f} diameters); {dimension:.2f} dimensions"


def landmarks(x: Float64[np.ndarray, "n b"], many: int, seed: int = 0) -> np.ndarray:
    """Rows far from one another: each the farthest from those taken before; equal rows are taken once."""
    if x.ndim != 2 or not len(x) or not np.isfinite(x).all():
        raise refuse("codes", "be finite, (n, b), at least one", x.shape, "Take the codes of one block where it fires.")
    first = int(rng(seed, "landmarks").integers(len(x)))
    taken, nearest = [first], np.linalg.norm(x - x[first], axis=1)
    while len(taken) < min(many, len(x)):
        far = int(nearest.argmax())
        if nearest[far] <= 0:
            break
        taken.append(far)
        nearest = np.minimum(nearest, np.linalg.norm(x - x[far], axis=1))
    return np.array(taken)
