"""Volume ratio ρ(W, L): which share of the networks that solve a task do it by its parts. Our own formula, and a count.

arXiv 2606.19941 uses a ratio of volumes that lies in 0…1, has one sharp peak where width and depth just suffice, falls
exponentially on all sides, and vanishes as primitives are added; its formula is not known to us. Ours is the simplest
with these properties, and comes from one assumption: that events are independent, each with its own probability,

- every primitive is found by a neuron of its own (`found`, m times),
- every neuron beyond those needed stays out of it (`quiet`, W - W* times),
- every layer beyond those needed passes on what it gets (`passing`, L - L* times),
- every neuron or layer that is missing is made up for by one that does two things at once and still can be told
  apart (`shared`).

So log ρ is linear on both sides of W* and of L*. It says nothing about how training finds solutions.
`monte_carlo_ratio` counts, in networks small enough to be drawn at random.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import generator
from monoseme.core.stats import wilson

__all__ = ["monte_carlo_ratio", "volume_ratio"]

FEWEST = 20  # solutions, below which a share of them says nothing
PIECE = 2000


def volume_ratio(
    width: float | np.ndarray,
    depth: float | np.ndarray,
    *,
    least_width: float,
    best_depth: float,
    primitives: int,
    found: float = 0.6,
    quiet: float = 0.25,
    passing: float = 0.2,
    shared: float = 0.05,
) -> float | np.ndarray:
    """ρ(W, L) = found^m · quiet^(W-W*)⁺ · passing^(L-L*)⁺ · shared^((W*-W)⁺ + (L*-L)⁺), in 0…1; arrays broadcast.

    Parameters
    ----------
    width, depth
        W and L, at least 1.
    least_width, best_depth
        W* and L*: what the task's parts take, for example the layerised genome's.
    primitives
        m, parts of the task.
    found, quiet, passing, shared
        Probabilities of the assumption, inside 0…1. The defaults are about what the toy counts for two primitives
        (0.35 at its peak, a fifth to a quarter of it a neuron or a layer on, nothing a neuron below); in other tasks
        only the order of shapes is to be read.
    """
    rates = {"found": found, "quiet": quiet, "passing": passing, "shared": shared}
    for name, rate in rates.items():
        if not 0 < rate < 1:
            raise refuse(name, "lie inside 0…1", rate, "It is a probability; 0.5 is a start.")
    if primitives < 1 or least_width < 1 or best_depth < 1:
        got = (primitives, least_width, best_depth)
        raise refuse("primitives, least_width and best_depth", "be at least 1", got, "They count parts of a network.")
    w, l = np.asarray(width, dtype=np.float64), np.asarray(depth, dtype=np.float64)  # noqa: E741
    if not (np.all(w >= 1) and np.all(l >= 1)):
        raise refuse(
            "width and depth", "be at least 1", (float(w.min()), float(l.min())), "They count neurons, layers."
        )
    over_w, over_l = np.maximum(w - least_width, 0), np.maximum(l - best_depth, 0)
    under = np.maximum(least_width - w, 0) + np.maximum(best_depth - l, 0)
    log = primitives * np.log(found) + over_w * np.log(quiet) + over_l * np.log(passing) + under * np.log(shared)
    rho = np.exp(log)
    return float(rho) if rho.ndim == 0 else rho


def monte_carlo_ratio(
    width: int,
    depth: int,
    *,
    primitives: int = 2,
    tolerance: float = 0.05,
    purity: float = 0.9,
    scale: float = 3.0,
    draws: int = 20_000,
    seed: int = 0,
) -> Outcome:
    """Count ρ in a toy basin: y = Σ_j tanh(2 x_j) over `primitives` variables, networks of tanh without biases.

    Hidden weights are drawn uniformly in ±`scale`; the readout is the best by least squares. A draw solves the task
    when its unexplained share of variance is at most `tolerance`. A solution is compositional when every hidden neuron,
    in every layer, owes at least `purity` of its variance to one variable alone. Variables lie on a grid of 7 points
    in -1…1 each, independent of one another. Wilson's interval; unknown below 20 solutions.
    """
    if min(width, depth, primitives) < 1 or primitives > 4:
        got = (width, depth, primitives)
        raise refuse("width, depth and primitives", "be at least 1, primitives at most 4", got, "It is a toy.")
    x = torch.tensor(list(itertools.product(np.linspace(-1, 1, 7), repeat=primitives)))
    y = torch.tanh(2 * x).sum(1)
    stream, solved, pure = generator(seed, "volume", width, depth, primitives), 0, 0
    for start in range(0, draws, PIECE):
        many = min(PIECE, draws - start)
        a, parts = x.expand(many, *x.shape), torch.ones(many, dtype=torch.bool)
        for _ in range(depth):
            w = (torch.rand(many, a.shape[2], width, generator=stream, dtype=torch.float64) * 2 - 1) * scale
            a = torch.tanh(a @ w)
            parts &= (_purity(a, primitives) >= purity).all(1)
        solves = _unexplained(a, y) <= tolerance
        solved, pure = solved + int(solves.sum()), pure + int((solves & parts).sum())
    where = {"width": width, "depth": depth, "primitives": primitives, "draws": draws, "seed": seed}
    if solved < FEWEST:
        return unknown("volume_ratio", "share", f"{solved} of {draws} draws solve the task; {FEWEST} are needed")
    low, high = wilson(pure, solved)
    note = f"toy basin; {solved} of {draws} draws solve it"
    value = pure / solved
    return Outcome("volume_ratio", value, "share", low, high, n=solved, n_unit="solutions", note=note, provenance=where)


def _purity(a: Float[Tensor, "m P n"], variables: int) -> Float[Tensor, "m n"]:
    """The largest share of each neuron's variance that is a function of one variable (first-order Sobol index)."""
    grid = a.reshape(len(a), *[7] * variables, a.shape[2])
    total = a.var(1, correction=0)
    axes = range(1, variables + 1)
    means = [grid.mean([other for other in axes if other != axis]) if variables > 1 else grid for axis in axes]
    explained = torch.stack([mean.var(1, correction=0) for mean in means]).amax(0)
    return torch.where(total > 1e-12, explained / total.clamp(min=1e-300), 1.0)  # a constant neuron mixes nothing


def _unexplained(a: Float[Tensor, "m P n"], y: Float[Tensor, " P"]) -> Float[Tensor, " m"]:
    """FVU of the best linear readout; a slight ridge keeps neurons that are alike solvable."""
    gram = a.mT @ a + 1e-9 * a.shape[1] * torch.eye(a.shape[2], dtype=a.dtype)
    coefficients = torch.linalg.solve(gram, (a.mT @ y)[..., None])
    error = (a @ coefficients)[..., 0] - y
    return error.square().mean(1) / y.var(correction=0)
