"""Maps of known shapes, walks on them, and the shapes found by persistence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.core.outcome import Outcome
from monoseme.steering import ConceptMap, find_topology, fit_map
from monoseme.steering.topology import landmarks
from monoseme.steering.walks import along, around, path, resample, walk

pytest.importorskip("python_som", reason="python-som is not installed")
ripser = pytest.importorskip("ripser", reason="ripser is not installed")


def shape(kind: str, n: int = 600, b: int = 4, noise: float = 0.03, seed: int = 0) -> Any:
    """Codes on a shape in the first coordinates, turned, off the origin."""
    draw = np.random.default_rng(seed)
    t, s = draw.uniform(0, 2 * np.pi, n), draw.uniform(0, 2 * np.pi, n)
    x = np.zeros((n, b))
    if kind == "ring":
        x[:, 0], x[:, 1] = np.cos(t), np.sin(t)
    elif kind == "line":
        x[:, 0], x[:, 1] = np.cos(t / 2), 0.5 * np.sin(t / 2)  # bent: an arc, open
    elif kind == "grid":
        x[:, 0], x[:, 1] = t / np.pi, s / np.pi
    else:
        x[:, 0], x[:, 1], x[:, 2], x[:, 3] = np.cos(t), np.sin(t), 0.8 * np.cos(s), 0.8 * np.sin(s)
    turn = np.linalg.qr(draw.normal(size=(b, b)))[0]
    return (x + noise * draw.normal(size=(n, b))) @ turn + 2.0, t


@pytest.mark.parametrize("kind", ["line", "ring", "grid", "torus"])
def test_the_planted_topology_is_found_at_any_scale(kind: str) -> None:
    codes, _ = shape(kind)
    found = find_topology(codes)
    assert found.name == kind, found
    assert find_topology(1e-3 * codes + 7).name == kind


@pytest.mark.parametrize("kind", ["line", "ring", "grid", "torus"])
def test_a_map_lies_where_the_codes_are_and_is_not_torn(kind: str) -> None:
    codes, _ = shape(kind)
    found = fit_map(codes, kind)
    assert found.quantisation_error.value is not None
    assert found.quantisation_error.value < (0.45 if kind in ("grid", "torus") else 0.25)
    assert found.topographic_error.value is not None
    assert found.topographic_error.value < (0.35 if kind == "torus" else 0.15)
    again = fit_map(codes, kind)
    np.testing.assert_array_equal(found.nodes, again.nodes)  # the same seed, the same map


def test_auto_says_what_it_found() -> None:
    found = fit_map(shape("ring")[0])
    assert found.topology == "ring"
    assert found.found is not None
    assert "one loop" in found.found.why


def test_errors_are_those_of_loops() -> None:
    codes, _ = shape("ring", 80)
    found = fit_map(codes, "ring")
    size = np.sqrt(np.square(codes - codes.mean(0)).sum(1).mean())
    away, torn = [], 0
    for code in codes:
        order = sorted(range(16), key=lambda i, code=code: float(np.linalg.norm(code - found.flat[i])))
        away.append(float(np.linalg.norm(code - found.flat[order[0]])) / size)
        torn += abs(order[0] - order[1]) not in (1, 15)
    assert found.quantisation_error.value == pytest.approx(np.mean(away))
    assert found.topographic_error.value == pytest.approx(torn / 80)


def test_a_walk_keeps_to_the_ring_and_goes_the_short_way() -> None:
    codes, theta = shape("ring", noise=0.0)
    found = fit_map(codes, "ring")
    start, end = codes[np.argmin(np.abs(theta - 0.3))], codes[np.argmin(np.abs(theta - 2.8))]
    way = walk(found, [start, end], 12)
    centre = codes.mean(0)
    assert way.shape == (12, 4)
    radius = np.linalg.norm(way - found.flat.mean(0), axis=1)
    assert radius.min() > 0.75 * np.linalg.norm(codes - centre, axis=1).mean()  # not through the hole
    lengths = np.linalg.norm(np.diff(way, axis=0), axis=1)
    assert lengths.max() / lengths.min() < 1.25  # chords of equal arcs
    assert lengths.sum() < 1.2 * 2.5 * np.linalg.norm(codes - centre, axis=1).mean()


def test_the_way_is_the_shortest_of_all() -> None:
    found = fit_map(shape("grid")[0], "grid", nodes=(3, 3))
    away = {pair: float(np.linalg.norm(found.flat[pair[0]] - found.flat[pair[1]])) for pair in found.edges()}
    away |= {(b, a): v for (a, b), v in away.items()}
    assert len(found.edges()) == 12

    def length(nodes: Any) -> float:
        return sum(away.get(pair, np.inf) for pair in itertools.pairwise(nodes))

    best = min(length((0, *middle, 8)) for n in range(8) for middle in itertools.permutations(range(1, 8), n))
    assert length(path(found, 0, 8)) == pytest.approx(best)


def test_around_is_a_closed_loop_in_equal_steps() -> None:
    found = fit_map(shape("ring")[0], "ring")
    loop = around(found, 24)
    steps = np.linalg.norm(loop - np.roll(loop, -1, axis=0), axis=1)
    assert steps.max() / steps.min() < 1.3
    check_refused(lambda: around(fit_map(shape("line")[0], "line")), "topology")


def test_points_are_spread_evenly_along_a_line() -> None:
    points = np.array([[0.0, 0], [1, 0], [1, 3]])
    np.testing.assert_allclose(resample(points, 5), [[0, 0], [1, 0], [1, 1], [1, 2], [1, 3]])


def test_landmarks_are_far_apart_and_all_different() -> None:
    x = np.repeat(np.arange(5.0)[:, None], 3, 0)
    assert sorted(x[landmarks(x, 100)][:, 0]) == [0, 1, 2, 3, 4]
    assert set(x[landmarks(x, 2, 0)][:, 0]) & {0.0, 4.0}


def test_one_coordinate_has_a_line() -> None:
    codes = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    found = fit_map(codes, "line")
    assert found.nodes.shape == (16, 1, 1)
    flat = found.flat[:, 0]
    assert (np.diff(flat) > 0).all() or (np.diff(flat) < 0).all()


RING = shape("ring", 60)[0]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: fit_map(RING[:5], "ring"), "codes"),
        (lambda: fit_map(np.ones((20, 3)), "ring"), "codes"),
        (lambda: fit_map(np.full((20, 3), np.nan), "ring"), "codes"),
        (lambda: fit_map(RING, "circle"), "topology"),
        (lambda: fit_map(RING, "ring", nodes=(4, 4)), "nodes"),
        (lambda: find_topology(np.repeat(RING[:3], 5, 0)), "codes"),
        (lambda: walk(fit_map(RING, "ring"), [3]), "waypoints"),
        (lambda: walk(fit_map(RING, "ring"), [3, 3]), "waypoints"),
        (lambda: walk(fit_map(RING, "ring"), [3, 99]), "waypoints"),
        (lambda: walk(fit_map(RING, "ring"), [3, 4], 1), "steps"),
        (lambda: walk(fit_map(RING, "ring"), [np.zeros(9), 4]), "codes"),
        (lambda: around(fit_map(RING, "ring"), 2), "steps"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)


def _circle(n: int = 32) -> ConceptMap:
    """A ring of nodes on the unit circle, made by hand."""
    theta = 2 * np.pi * np.arange(n) / n
    nodes = np.stack([np.cos(theta), np.sin(theta)], 1)[:, None]
    nothing = Outcome("error", None, "1", note="made by hand")
    return ConceptMap("ring", nodes, nothing, nothing)


def test_moving_along_a_ring_turns_every_code_by_the_same_angle() -> None:
    found = _circle()
    length = 32 * 2 * np.sin(np.pi / 32)
    codes = np.random.default_rng(0).normal(size=(50, 2))
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    moved, foot = along(found, codes, length / 4)
    np.testing.assert_allclose(moved, np.stack([-codes[:, 1], codes[:, 0]], 1), atol=0.02)
    np.testing.assert_allclose(foot / length, np.arctan2(codes[:, 1], codes[:, 0]) / (2 * np.pi) % 1, atol=1e-3)
    np.testing.assert_allclose(along(found, codes, 0.0)[0], codes, atol=1e-12)
    np.testing.assert_allclose(along(found, codes, -3 * length)[0], codes, atol=1e-9)


def test_moving_along_a_line_stops_at_its_ends_and_keeps_what_lies_off_it() -> None:
    nothing = Outcome("error", None, "1", note="made by hand")
    line = ConceptMap("line", np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[3.0, 0.0]]]), nothing, nothing)
    codes = np.array([[0.5, 0.2], [2.5, -0.1], [-1.0, 0.0]])
    moved, foot = along(line, codes, 1.0)
    np.testing.assert_allclose(foot, [0.5, 2.5, 0.0])
    np.testing.assert_allclose(moved, [[1.5, 0.2], [3.0, -0.1], [0.0, 0.0]])
    check_refused(lambda: along(fit_map(RING, "grid"), RING, 1.0), "topology")
    check_refused(lambda: along(line, np.zeros((3, 3)), 1.0), "codes")
