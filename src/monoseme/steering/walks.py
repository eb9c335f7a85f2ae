"""Walks on a map: the shortest way between waypoints over neighbouring nodes, in equal steps of arc length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.steering.maps import ConceptMap

__all__ = ["along", "around", "path", "resample", "walk"]


def walk(
    found: ConceptMap, waypoints: Sequence[int | Float64[np.ndarray, " b"]], steps: int = 9
) -> Float64[np.ndarray, "steps b"]:
    """Codes on the geodesic of the map through waypoints: nodes by number, or codes, which go to their nearest node.

    Distances between neighbouring nodes are those of their codes, so a walk keeps to where codes are, and does not cut
    through the hole of a ring. Steps are equally long along the way.

    Raises
    ------
    UserError
        Fewer than two different waypoints, a node that is not there, fewer than two steps.
    """
    if steps < 2:
        raise refuse("steps", "be at least 2", steps, "9 makes a film strip.")
    nodes = [_node(found, point) for point in waypoints]
    nodes = [node for i, node in enumerate(nodes) if i == 0 or node != nodes[i - 1]]
    if len(nodes) < 2:
        raise refuse("waypoints", "be at least two different nodes", len(nodes), "A walk needs a start and an end.")
    parts = [path(found, a, b) for a, b in pairwise(nodes)]
    return resample(found.flat[parts[0] + [node for part in parts[1:] for node in part[1:]]], steps)


def around(found: ConceptMap, steps: int = 16) -> Float64[np.ndarray, "steps b"]:
    """Once around a ring, or around a torus along its rows; the last step lies before the first, not on it."""
    if found.topology not in ("ring", "torus"):
        raise refuse("topology", "be a ring or a torus to go around", found.topology, "Use walk(...).")
    if steps < 3:
        raise refuse("steps", "be at least 3", steps, "16 makes a film strip.")
    loop = found.nodes[:, 0]
    return resample(np.concatenate([loop, loop[:1]]), steps + 1)[:-1]


def along(
    found: ConceptMap, codes: Float64[np.ndarray, "n b"], distance: float
) -> tuple[Float64[np.ndarray, "n b"], Float64[np.ndarray, " n"]]:
    """Move every code from where it is along a line or ring, by an arc length; a line ends at its ends.

    A code keeps how it differs from its foot, the nearest point of the map, so that a distance of 0 changes nothing.

    Returns
    -------
    tuple
        The codes, and the arc length from the map's first node at which the feet were.
    """
    if found.topology not in ("line", "ring"):
        raise refuse("topology", "be a line or a ring to move along", found.topology, "Use walk(...).")
    if codes.ndim != 2 or codes.shape[1] != found.nodes.shape[2]:
        raise refuse("codes", f"have {found.nodes.shape[2]} coordinates", codes.shape, "Use the map's own block.")
    ring = found.topology == "ring"
    points = found.nodes[:, 0]
    points = np.concatenate([points, points[:1]]) if ring else points
    steps = np.diff(points, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    until = np.concatenate([[0.0], np.cumsum(lengths)])
    away = codes[:, None] - points[None, :-1]
    share = np.clip((away * steps).sum(2) / np.maximum(lengths**2, 1e-300), 0, 1)
    nearest = np.linalg.norm(away - share[:, :, None] * steps, axis=2).argmin(1)
    rows = np.arange(len(codes))
    foot = until[nearest] + share[rows, nearest] * lengths[nearest]
    there = (foot + distance) % until[-1] if ring else np.clip(foot + distance, 0, until[-1])

    def at(place: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, "n b"]:
        return np.stack([np.interp(place, until, column) for column in points.T], 1)

    return codes + at(there) - at(foot), foot


def path(found: ConceptMap, start: int, end: int) -> list[int]:
    """Nodes of the shortest way from start to end, both included."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    edges, flat = np.array(found.edges()), found.flat
    # an edge between equal codes is no gap: 0 would be no edge at all
    away = np.maximum(np.linalg.norm(flat[edges[:, 0]] - flat[edges[:, 1]], axis=1), 1e-12)
    graph = csr_array((away, (edges[:, 0], edges[:, 1])), shape=(len(flat), len(flat)))
    before = dijkstra(graph, directed=False, indices=start, return_predecessors=True)[1]
    nodes = [end]
    while nodes[-1] != start:
        nodes.append(int(before[nodes[-1]]))
    return nodes[::-1]


def resample(points: Float64[np.ndarray, "m b"], steps: int) -> Float64[np.ndarray, "steps b"]:
    """Points at equal distances along a polyline, ends included."""
    lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    if lengths[-1] == 0:
        raise refuse("waypoints", "lie apart", "a way of length 0", "Choose others.")
    at = np.linspace(0, lengths[-1], steps)
    return np.stack([np.interp(at, lengths, column) for column in points.T], 1)


def _node(found: ConceptMap, point: int | Float64[np.ndarray, " b"]) -> int:
    if isinstance(point, (int, np.integer)):
        if not 0 <= point < len(found.flat):
            raise refuse("waypoints", f"lie in 0..{len(found.flat) - 1}", point, "Nodes are counted from 0.")
        return int(point)
    return int(found.nearest(np.asarray(point, dtype=np.float64)[None])[0])
