"""Concepts in levels: a child is on only when its parent is (with a leak, if wanted)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.worlds.activity import Nested
from monoseme.worlds.concepts import SPREAD, Concept, assemble, check_cosine, check_sizes, probabilities
from monoseme.worlds.directions import around, unit_rows
from monoseme.worlds.laws import Law
from monoseme.worlds.world import World

__all__ = ["Children", "hierarchical"]


@dataclass(frozen=True)
class Children:
    """How the lower levels of a hierarchy hang on the ones above.

    Attributes
    ----------
    branching
        Children of every concept, level by level: ``(3,)`` is parents with three children, ``(3, 2)`` adds two
        grandchildren for each child.
    given
        P(child on) ÷ P(parent on), for every child.
    leak
        Share of a child's firings on which its parent is off; 0 is a strict hierarchy. Densities do not depend on it.
    exclusive
        Whether at most one child of a parent is on at a time; else they are independent, given the parent.
    ratio
        Scale of a child's magnitude relative to its parent's.
    """

    branching: tuple[int, ...] = (3,)
    given: float = 0.3
    leak: float = 0.0
    exclusive: bool = False
    ratio: float = 1.0


THREE = Children()


def hierarchical(
    d: int = 128,
    roots: int = 16,
    p: float | Sequence[float] = 0.1,
    children: Children = THREE,
    magnitude: Law = SPREAD,
    cosine: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
) -> World:
    """A child is on only when its parent is, and adds its own contribution to the parent's.

    The case in which L1 penalties lead to absorption: one latent for "child and parent" is cheaper than two.
    Levels stand in order, roots first; the children of one concept stand together (``world.activity.parent``).

    Parameters
    ----------
    d
        Width of a row.
    roots, p
        Number of concepts without a parent, independent of one another, and P(on) of them, one for all or one each.
    children
        The levels below.
    magnitude
        Law of a, on all levels; a child's and its parent's are independent.
    cosine
        Between a child and its parent, exactly, in [0, 1). Other pairs are orthogonal or at products of it when all
        directions fit into d.
    noise
        Share of E‖x‖² that is isotropic Gaussian noise.
    seed
        Seed of the directions.

    Raises
    ------
    UserError
        A size, probability, cosine or share outside its range, or children more probable than their parents allow.
    """
    check_sizes(d, noise, roots=roots, **{f"children.branching[{i}]": n for i, n in enumerate(children.branching)})
    check_cosine(cosine)
    _children(children)
    activity, level = _forest(probabilities(p, roots), children)
    own = unit_rows(len(level), d, rng(seed, "directions"))
    directions = own.copy()
    for depth in range(1, int(level.max()) + 1):
        here = np.flatnonzero(level == depth)
        directions[here] = around(directions, activity.parent[here], own[here], cosine)
    concepts = [
        Concept(f"level {depth}", magnitude, w, float(children.ratio**depth))
        for depth, w in zip(level.tolist(), directions, strict=True)
    ]
    return assemble(d, concepts, activity, noise, seed)


def _forest(p: Float64[np.ndarray, " r"], children: Children) -> tuple[Nested, Int64[np.ndarray, " M"]]:
    """Probabilities of a forest, level by level, and the level of each concept."""
    parent, level = [np.full(len(p), -1)], [np.zeros(len(p), dtype=np.int64)]
    on, off, start = [p], [np.zeros(len(p))], 0
    for depth, n in enumerate(children.branching, 1):
        if children.leak and p.max() >= 1:
            raise refuse("children.leak", "be 0 under a parent that is always on", children.leak, "Lower p.")
        apart = children.given * children.leak * np.divide(p, 1 - p, out=np.zeros(len(p)), where=p < 1)
        together = np.full(len(p), children.given * (1 - children.leak))
        most = max(float(together.max()), float(apart.max())) * (n if children.exclusive else 1)
        if most > 1 + 1e-12:
            rule = (
                "leave P(child on | parent) at most 1 in sum" if children.exclusive else "leave P(child on) at most 1"
            )
            raise refuse(
                "children.given", rule, f"{children.given} ({most:.3g})", "Lower it, the leak, or the branching."
            )
        parent.append(np.arange(start, start + len(p)).repeat(n))
        start += len(p)
        on.append(together.repeat(n))
        off.append(apart.repeat(n))
        p = (p * children.given).repeat(n)
        level.append(np.full(len(p), depth))
    activity = Nested(np.concatenate(parent), np.concatenate(on), np.concatenate(off), children.exclusive)
    return activity, np.concatenate(level)


def _children(children: Children) -> None:
    if not children.branching:
        raise refuse("children.branching", "name at least one level", "()", "Without children take independent().")
    for name, value, low, high in (("given", children.given, 0, 1), ("ratio", children.ratio, 0, math.inf)):
        if not low < value <= high:
            raise refuse(f"children.{name}", f"lie in ({low}, {high}]", value, "Every child needs a share.")
    if not 0 <= children.leak < 1:
        raise refuse("children.leak", "lie in [0, 1)", children.leak, "0 is a strict hierarchy.")
