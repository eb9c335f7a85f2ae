"""A self-organising (Kohonen) map of a block's codes: nodes on a line, a ring, a grid or a torus, each a code.

Neighbouring nodes get neighbouring codes, so that a walk over nodes is a walk along the concept. python-som fits it, in
batches: the same map for the same codes and seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of, wilson
from monoseme.steering.topology import TOPOLOGIES, Topology, find_topology

__all__ = ["ConceptMap", "fit_map"]

NODES = {"line": (16, 1), "ring": (16, 1), "grid": (8, 8), "torus": (8, 8)}
CYCLIC = {"line": (False, False), "ring": (True, False), "grid": (False, False), "torus": (True, True)}
ITERATIONS = 100
FEWEST = 8


@dataclass(frozen=True, eq=False)
class ConceptMap:
    """A fitted map.

    Attributes
    ----------
    topology
        ``"line"``, ``"ring"``, ``"grid"`` or ``"torus"``.
    nodes
        (rows, columns, b): the code of every node. A line and a ring have one column.
    quantisation_error
        Mean distance of a code to its nearest node, in units of the root mean square of the codes about their mean;
        lower is better.
    topographic_error
        Share of codes whose two nearest nodes are no neighbours on the map; lower is better. A map that folds has many.
    found
        How the topology was found, if it was not said.
    """

    topology: str
    nodes: Float64[np.ndarray, "rows columns b"]
    quantisation_error: Outcome
    topographic_error: Outcome
    found: Topology | None = None

    @property
    def flat(self) -> Float64[np.ndarray, "m b"]:
        """Nodes one after another, row by row."""
        return self.nodes.reshape(-1, self.nodes.shape[2])

    def edges(self) -> list[tuple[int, int]]:
        """Pairs of neighbouring nodes, by their numbers in `flat`."""
        return _edges(self.nodes.shape[0], self.nodes.shape[1], CYCLIC[self.topology])

    def nearest(self, codes: Float64[np.ndarray, "n b"]) -> np.ndarray:
        """Number of the node next to each code."""
        if codes.ndim != 2 or codes.shape[1] != self.nodes.shape[2]:
            raise refuse("codes", f"have {self.nodes.shape[2]} coordinates", codes.shape, "Use the map's own block.")
        return np.linalg.norm(codes[:, None] - self.flat[None], axis=2).argmin(1)


def fit_map(
    codes: Float64[np.ndarray, "n b"],
    topology: str = "auto",
    *,
    nodes: tuple[int, int] | None = None,
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> ConceptMap:
    """Fit a map to a block's codes where it fires, ``code.values[code.entries_of(block)]``.

    Parameters
    ----------
    topology
        ``"auto"``: by persistent homology (`find_topology`); or one of line, ring, grid, torus.
    nodes
        (rows, columns) of the map; 16 × 1 or 8 × 8 by default.
    iterations
        Passes over all codes.
    seed
        Of the first nodes.

    Raises
    ------
    UserError
        A block that fires fewer than 8 times, codes that do not vary, an unknown topology, python-som not installed.
    """
    x = np.asarray(codes, dtype=np.float64)
    _check(x, topology)
    found = find_topology(x, seed=seed) if topology == "auto" else None
    kind = found.name if found is not None else topology
    shape = nodes or NODES[kind]
    if min(shape) < 1 or shape[0] < 3 or (kind in ("line", "ring")) != (shape[1] == 1):
        raise refuse("nodes", "be (n, 1) for a line or ring, at least 3 rows", shape, "Leave it out.")
    made = _fit(x, kind, shape, iterations, seed)
    return ConceptMap(kind, made, *_errors(x, made, kind), found)


def _fit(
    x: Float64[np.ndarray, "n b"], kind: str, shape: tuple[int, int], iterations: int, seed: int
) -> Float64[np.ndarray, "rows columns b"]:
    try:
        from python_som import SOM
    except ImportError:
        raise refuse("python-som", "be installed", "not installed", 'pip install "monoseme[steering]".') from None
    cyclic_x, cyclic_y = CYCLIC[kind]
    # one coordinate has no second direction to lay a map along: a column of zeros does not change distances
    wide = np.concatenate([x, np.zeros((len(x), 1))], 1) if x.shape[1] == 1 else x
    som = SOM(
        *shape,
        wide.shape[1],
        neighborhood_radius=max(shape) / 3,
        cyclic_x=cyclic_x,
        cyclic_y=cyclic_y,
        random_seed=seed,
    )
    # laid out by us, in place: a ring that begins as a line stays folded
    som.get_weights()[:] = _first(wide, kind, shape)
    som.train(wide, n_iteration=iterations, mode="batch")
    return np.asarray(som.get_weights(), dtype=np.float64)[:, :, : x.shape[1]]


def _first(x: Float64[np.ndarray, "n c"], kind: str, shape: tuple[int, int]) -> Float64[np.ndarray, "r q c"]:
    """Nodes in the plane of the two largest components: along it, or around it."""
    mean = x.mean(0)
    _, sizes, axes = np.linalg.svd(x - mean, full_matrices=False)
    spread = sizes[:2] / np.sqrt(len(x))
    u, v = spread[0] * axes[0], (spread[1] * axes[1] if len(axes) > 1 else 0 * axes[0])
    rows, columns = shape
    if kind in ("ring", "torus"):
        theta = 2 * np.pi * np.arange(rows) / rows
        ring = np.sqrt(2) * (np.cos(theta)[:, None] * u + np.sin(theta)[:, None] * v)
        if kind == "ring":
            return mean + ring[:, None]
        phi = 2 * np.pi * np.arange(columns) / columns
        w = sizes[2] / np.sqrt(len(x)) * axes[2] if len(axes) > 2 else 0 * u
        bulge = np.cos(phi)[None, :, None] * 0.3 * ring[:, None] + np.sin(phi)[None, :, None] * np.sqrt(2) * w
        return mean + ring[:, None] + bulge
    along, across = np.linspace(-1.5, 1.5, rows), np.linspace(-1.5, 1.5, columns) if columns > 1 else np.zeros(1)
    return mean + along[:, None, None] * u + across[None, :, None] * v


def _errors(x: Float64[np.ndarray, "n b"], made: Float64[np.ndarray, "r q b"], kind: str) -> tuple[Outcome, Outcome]:
    flat = made.reshape(-1, made.shape[2])
    away = np.linalg.norm(x[:, None] - flat[None], axis=2)
    first, second = np.argsort(away, axis=1)[:, :2].T
    size = np.sqrt(np.square(x - x.mean(0)).sum(1).mean())
    mean = mean_of(away.min(1) / size)
    near = set(_edges(made.shape[0], made.shape[1], CYCLIC[kind]))
    torn = sum((min(a, b), max(a, b)) not in near for a, b in zip(first.tolist(), second.tolist(), strict=True))
    low, high = wilson(torn, len(x))
    about = {"better": "lower", "n": len(x), "n_unit": "codes"}
    return (
        Outcome("quantisation_error", mean.value, "1", mean.low, mean.high, **about),  # pyright: ignore[reportArgumentType]
        Outcome("topographic_error", torn / len(x), "share", low, high, **about),  # pyright: ignore[reportArgumentType]
    )


def _edges(rows: int, columns: int, cyclic: tuple[bool, bool]) -> list[tuple[int, int]]:
    found = set()
    for i in range(rows):
        for j in range(columns):
            for di, dj in ((1, 0), (0, 1)):
                a, b = i + di, j + dj
                if (a < rows or cyclic[0]) and (b < columns or cyclic[1]):
                    pair = sorted((i * columns + j, (a % rows) * columns + b % columns))
                    if pair[0] != pair[1]:
                        found.add((pair[0], pair[1]))
    return sorted(found)


def _check(x: Float64[np.ndarray, "n b"], topology: str) -> None:
    if topology not in ("auto", *TOPOLOGIES):
        fix = closest(topology, TOPOLOGIES)
        raise refuse("topology", f"be auto or one of {', '.join(TOPOLOGIES)}", repr(topology), fix)
    if x.ndim != 2 or len(x) < FEWEST:
        got = f"{len(x)} codes" if x.ndim == 2 else str(x.shape)
        raise refuse("codes", f"be of a block that fires at least {FEWEST} times", got, "Choose another block.")
    if not np.isfinite(x).all() or not np.square(x - x.mean(0)).sum() > 0:
        raise refuse("codes", "be finite and vary", "constant or NaN", "Choose another block.")
