"""Along a circle: harmonics against plain sums and planted shares, fragments, phases, and the pictures drawn for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.evaluation.fragmentation import cover, fragmentation, phase_check
from monoseme.evaluation.harmonics import harmonics, spectrum
from monoseme.worlds.stimuli import curves, gratings

PLANTED = (0.589, 0.183, 0.120, 0.072)  # of the recovered block in arXiv 2606.25234, app. E; 0.036 are left


def ring(shares: tuple[float, ...], n: int = 1800, noise: float = 0.0, seed: int = 0, rotate: bool = True) -> Any:
    """A path with these shares of energy in harmonics 1, 2, …, in a block of 16, and white noise."""
    theta = 2 * np.pi * np.arange(n) / n
    stream = np.random.default_rng(seed)
    values = np.zeros((n, 16))
    for k, share in enumerate(shares):
        values[:, 2 * k] = np.sqrt(share) * np.cos((k + 1) * theta + k)
        values[:, 2 * k + 1] = np.sqrt(share) * np.sin((k + 1) * theta + k)
    white = stream.normal(size=values.shape)
    values += np.sqrt(noise / np.square(white).sum(1).mean()) * white
    turn = np.linalg.qr(stream.normal(size=(16, 16)))[0] if rotate else np.eye(16)
    return values @ turn, theta


def test_the_planted_shares_are_found_within_a_point() -> None:
    values, theta = ring(PLANTED, noise=1 - sum(PLANTED))
    found = harmonics(values, theta)
    np.testing.assert_allclose(found.shares, PLANTED, atol=0.01)
    assert found.noise == pytest.approx(1 - sum(PLANTED), rel=0.05)
    assert found.floor == pytest.approx(2 * (1 - sum(PLANTED)) / 1799, rel=0.05)
    assert (found.deviations[1:] > 100).all()
    assert found.coverage == 1.0


@pytest.mark.parametrize("n", [180, 181, 1800])
def test_the_null_lies_at_its_floor(n: int) -> None:
    values, theta = ring((0.656,), n, noise=0.344)
    found = harmonics(values, theta)
    assert found.shares[0] == pytest.approx(0.656, abs=0.03)
    # one draw: 2 x 16 numbers a harmonic, so within a few times sqrt(2 / 32) of the floor
    np.testing.assert_allclose(found.shares[1:], found.floor, rtol=1.0)
    np.testing.assert_allclose(found.null_mean[1:], found.floor, rtol=0.1)
    assert (np.abs(found.deviations[1:]) < 5).all()
    # of 1,800 angles the paper's table has 0.04 %: 0.344 x 2 / 1799
    assert n != 1800 or found.floor == pytest.approx(0.00038, rel=0.05)


def test_a_spectrum_is_that_of_plain_sums() -> None:
    for n in (9, 10):
        curve = np.random.default_rng(n).normal(size=(n, 3))
        theta = 2 * np.pi * np.arange(n) / n
        wanted = []
        for k in range(1, n // 2 + 1):
            a, b = (curve * np.cos(k * theta)[:, None]).sum(0), (curve * np.sin(k * theta)[:, None]).sum(0)
            wanted.append(float((a**2 + b**2).sum()) * (1 if 2 * k == n else 2) / n)
        np.testing.assert_allclose(spectrum(curve), wanted)
        assert spectrum(curve).sum() == pytest.approx(np.square(curve - curve.mean(0)).sum())


def test_order_rotation_unit_and_offset_do_not_matter() -> None:
    values, theta = ring(PLANTED, 360, noise=0.05)
    own = harmonics(values, theta).shares
    order = np.random.default_rng(1).permutation(360)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(16, 16)))[0]
    for other in (harmonics(values[order], theta[order]), harmonics(7 * values @ turn + 3, theta + 0.3)):
        np.testing.assert_allclose(other.shares, own, rtol=1e-9)


def test_bins_average() -> None:
    values, theta = ring(PLANTED, 3600)
    stream = np.random.default_rng(0)
    chosen = stream.integers(0, 3600, 20_000)
    found = harmonics(values[chosen], theta[chosen], bins=90)
    np.testing.assert_allclose(found.shares, np.array(PLANTED) / sum(PLANTED), atol=0.01)


def bumps(centres: np.ndarray, width: float, theta: np.ndarray) -> list[np.ndarray]:
    away = np.abs((theta[:, None] - centres + np.pi) % (2 * np.pi) - np.pi)
    return [np.maximum(1 - a / width, 0)[:, None] for a in away.T]


def test_one_block_covers_what_takes_many_latents() -> None:
    theta = 2 * np.pi * np.arange(72) / 72
    block = np.stack([np.cos(theta), np.sin(theta)], 1)
    constant = np.ones((72, 2))
    latents = bumps(np.arange(12) * np.pi / 6, np.pi / 5, theta)
    wide = bumps(np.arange(6) * np.pi / 3, np.pi / 2, theta)
    found = fragmentation(
        {"blocks": [constant, block], "latents": [constant[:, :1], *latents], "wide": wide}, theta, reference="blocks"
    )
    assert found["blocks"].single == 1.0
    assert found["blocks"].units == ((1, 1.0),)
    assert found["latents"].single < 0.35
    assert len(found["latents"].units) >= 6
    assert found["latents"].reached
    assert 1 < len(found["wide"].units) < len(found["latents"].units)
    assert found["wide"].width > found["latents"].width
    assert 0 not in [i for i, _ in found["latents"].units]  # what is always on tells nothing


def test_what_never_covers_stops() -> None:
    theta = 2 * np.pi * np.arange(16) / 16
    found = cover([np.ones((16, 1)), np.zeros((16, 1))], theta, 1.0)
    assert not found.reached
    assert found.single == 0.0
    assert len(found.units) == 1


def test_covered_is_what_a_loop_says() -> None:
    theta = 2 * np.pi * np.arange(24) / 24
    unit = np.random.default_rng(0).normal(size=(24, 3)) * 0.2 + np.stack([np.cos(theta), np.sin(theta), 0 * theta], 1)
    hits = 0
    for i in range(24):
        d = [float(np.square(unit[i] - unit[j]).sum()) if j != i else np.inf for j in range(24)]
        j = int(np.argmin(d))
        away = abs((theta[i] - theta[j] + np.pi) % (2 * np.pi) - np.pi)
        hits += away <= 0.3
    assert cover([unit], theta, 1.0, tolerance=0.3).single == pytest.approx(hits / 24)


def test_a_quadrature_pair_is_a_complex_cell_and_its_half_is_none() -> None:
    phase = 2 * np.pi * np.arange(32) / 32
    pair = np.stack([np.cos(phase), np.sin(phase)], 1)
    assert phase_check(pair).complex_cell
    assert phase_check(-pair[::-1]).complex_cell
    half = phase_check(np.maximum(pair[:, :1], 0))
    assert not half.complex_cell
    assert half.ripple > 1
    twice = np.stack([np.cos(2 * phase), np.sin(2 * phase)], 1)
    assert abs(phase_check(twice).turns) == pytest.approx(2)
    assert not phase_check(twice).complex_cell


def test_gratings_of_a_drawn_pair_of_filters() -> None:
    pictures = gratings(2 * np.pi * np.arange(24) / 24, 48, cycles=6)
    grey = pictures[..., 0].reshape(24, -1) - 0.5
    filters = (gratings(np.array([0.0, np.pi / 2]), 48, cycles=6)[..., 0].reshape(2, -1) - 0.5).astype(np.float64)
    assert phase_check(grey.astype(np.float64) @ filters.T).complex_cell


def test_curves_turn_with_their_angle() -> None:
    quarter = curves(np.array([0.0, np.pi / 2, np.pi, 3 * np.pi / 2]), 33)
    assert quarter.shape == (4, 33, 33, 3)
    assert 0.5 <= quarter.min() < quarter.max() <= 1.0
    for i in range(4):
        np.testing.assert_allclose(np.rot90(quarter[0], -i, (0, 1)), quarter[i], atol=1e-6)
    near = curves(np.array([0.0, 2 * np.pi / 1800]), 33)
    assert 0 < np.abs(near[0] - near[1]).max() < 0.2
    angles = 2 * np.pi * np.arange(36) / 36
    grey = curves(angles, 33)[..., 0].reshape(36, -1).astype(np.float64)
    assert cover([grey], angles, 1.0).single == 1.0


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: harmonics(np.ones((20, 2)), 2 * np.pi * np.arange(20) / 20), "values"),
        (lambda: harmonics(np.ones((20, 2)), np.arange(20.0)), "angles"),
        (lambda: harmonics(np.ones((20, 2)), np.zeros(20), bins=4), "bins"),
        (lambda: harmonics(np.ones((20, 2)), np.zeros(19)), "values"),
        (lambda: harmonics(*ring(PLANTED, 12)), "many"),
        (lambda: cover([], np.zeros(9), 1.0), "units"),
        (lambda: cover([np.ones((4, 1))], np.zeros(4), 1.0), "angles"),
        (lambda: cover([np.full((9, 1), np.nan)], np.zeros(9), 1.0), "units[0]"),
        (lambda: cover([np.ones((9, 1))], np.zeros(9), 1.0, tolerance=4.0), "tolerance"),
        (lambda: fragmentation({"a": []}, np.zeros(9), reference="b"), "reference"),
        (lambda: phase_check(np.zeros((9, 2))), "values"),
        (lambda: phase_check(np.ones((3, 2))), "values"),
        (lambda: curves(np.zeros(1), 4), "size"),
        (lambda: curves(np.zeros(1), 16, span=7.0), "span"),
        (lambda: gratings(np.zeros(1), 16, cycles=0.0), "cycles"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
