"""Every point satisfies the implicit equation of its manifold, and coordinates are drawn as stated."""

import math

import numpy as np
import pytest

from monoseme.core.seeds import rng
from monoseme.worlds import CURVED, Helix, Moebius, Segment, SwissRoll, Torus

TYPES = [Segment(), *CURVED, Torus(3.0, 1.0), Moebius(0.9), SwissRoll(2.0, 7.0, 3.0), Helix(1.5, 0.5)]


def residual(manifold, p):
    """The implicit equation (0 on the manifold), written from the geometry and not from the parametrisation."""
    match manifold.kind:
        case "segment":
            return np.maximum(np.abs(p[:, 0]) - 1, 0)
        case "circle":
            return np.linalg.norm(p, axis=1) - 1
        case "disk":
            return np.maximum(np.linalg.norm(p, axis=1) - 1, 0)
        case "sphere":
            return np.linalg.norm(p, axis=1) - 1
        case "torus":
            return (np.hypot(p[:, 0], p[:, 1]) - manifold.major) ** 2 + p[:, 2] ** 2 - manifold.minor**2
        case "möbius":
            half = np.mod(np.arctan2(p[:, 1], p[:, 0]), 2 * math.pi) / 2
            off = np.hypot(p[:, 0], p[:, 1]) - 1
            width = np.hypot(off, p[:, 2])
            return np.abs(off * np.sin(half) - p[:, 2] * np.cos(half)) + np.maximum(width - manifold.half_width, 0)
        case "swiss roll":
            radius = np.hypot(p[:, 0], p[:, 2])
            turned = np.abs(np.exp(1j * radius) - (p[:, 0] + 1j * p[:, 2]) / radius)
            return turned + np.maximum(np.abs(p[:, 1]) - manifold.half_height, 0)
        case "helix":
            theta = p[:, 2] / manifold.pitch
            return np.abs(p[:, 0] - np.cos(theta)) + np.abs(p[:, 1] - np.sin(theta))
    raise AssertionError(manifold.kind)


def test_there_are_eight_types_with_the_papers_dimensions():
    table = {m.kind: (m.d, m.b) for m in (Segment(), *CURVED)}
    assert table == {
        "segment": (1, 1),
        "circle": (1, 2),
        "disk": (2, 2),
        "sphere": (2, 3),
        "torus": (2, 3),
        "möbius": (2, 3),
        "swiss roll": (2, 3),
        "helix": (1, 3),
    }


@pytest.mark.parametrize("manifold", TYPES, ids=repr)
def test_points_lie_on_the_manifold(manifold):
    coordinates = manifold.draw(rng(0, "test"), 2000)
    points = manifold.embed(coordinates)
    assert coordinates.shape == (2000, manifold.d)
    assert points.shape == (2000, manifold.b)
    np.testing.assert_allclose(residual(manifold, points), 0, atol=1e-9)


def test_the_disk_and_the_sphere_are_uniform_by_area():
    radius, _ = CURVED[1].draw(rng(0, "disk"), 20_000).T
    heights = CURVED[2].embed(CURVED[2].draw(rng(0, "sphere"), 20_000))[:, 2]
    grid = np.linspace(0.1, 0.9, 9)
    # 0.02 is about five standard errors of a share over 20,000 points
    np.testing.assert_allclose((radius[:, None] < grid).mean(0), grid**2, atol=0.02)
    np.testing.assert_allclose((heights[:, None] < 2 * grid - 1).mean(0), grid, atol=0.02)


def test_ranges_are_filled_to_their_ends():
    roll = SwissRoll(first=2.0, last=3.0, half_height=5.0)
    coordinates = roll.draw(rng(0, "roll"), 5000)
    np.testing.assert_allclose(coordinates.min(0), [2.0, -5.0], atol=0.02)
    np.testing.assert_allclose(coordinates.max(0), [3.0, 5.0], atol=0.02)
    turns = Helix(turns=3.0).draw(rng(0, "helix"), 5000)
    assert turns.max() == pytest.approx(6 * math.pi, abs=0.05)
