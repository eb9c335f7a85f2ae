"""Bounds on directions, the PNG measure and the line through it, and measures of maps."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.composition.public_genomes import fer, present
from tests.composition.refusals import check_refused

from monoseme.composition.canvas import coordinates
from monoseme.composition.depth import fit_depth, predict_depth
from monoseme.composition.fractured import asymmetry, effective_dimension, moved_asymmetry, redundancy, roughness
from monoseme.composition.incremental import Move, Rendering, naive
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.png import FILTERS, PngSettings, encode, png_ratio
from monoseme.composition.scenes import SCENES, scene
from monoseme.composition.welch import interference, sum_bound, welch_bound
from monoseme.core.seeds import generator


def test_known_frames_reach_their_bounds() -> None:
    mercedes = torch.tensor([[math.cos(a), math.sin(a)] for a in (0.3, 0.3 + 2 * math.pi / 3, 0.3 + 4 * math.pi / 3)])
    found = interference(mercedes)
    assert welch_bound(3, 2) == pytest.approx(0.5)
    assert found.largest == pytest.approx(0.5, abs=1e-6)
    assert found.mean_square == pytest.approx(found.mean_square_bound, abs=1e-6)
    for d in (2, 3, 7):  # corners of a simplex: d + 1 equal angles
        simplex = torch.eye(d + 1) - 1 / (d + 1)
        basis = torch.linalg.svd(simplex)[2][:d]
        assert interference(simplex @ basis.T).largest == pytest.approx(1 / d, abs=1e-5)
        assert welch_bound(d + 1, d, 1) == pytest.approx(1 / d)
    assert interference(torch.eye(5)).largest == 0
    assert welch_bound(5, 5) == welch_bound(1, 3) == 0


def test_nothing_is_below_the_bounds() -> None:
    for n, d, seed in itertools.product((3, 10, 60), (2, 3, 8), range(5)):
        found = interference(torch.randn(n, d, generator=generator(seed, "frames")))
        assert found.largest >= found.largest_bound - 1e-9
        assert found.mean_square >= found.mean_square_bound - 1e-9
    assert welch_bound(1000, 3) > welch_bound(1000, 3, 1)  # higher orders say more of many directions
    assert sum_bound(3, 8) == 3


def test_zero_rows_do_not_count() -> None:
    rows = torch.cat([torch.eye(3), torch.zeros(2, 3)])
    assert interference(rows).n == 3


@pytest.mark.parametrize("how", [*FILTERS, "adaptive"])
@pytest.mark.parametrize("grey", [False, True])
def test_files_are_pngs_of_the_very_picture(how: str, grey: bool) -> None:
    stream = np.random.default_rng(0)
    for pixels in (
        stream.integers(0, 256, (7, 5, 3), dtype=np.uint8),
        (scene("apple").render(30).numpy() * 255).round().astype(np.uint8),
        np.zeros((1, 1, 3), np.uint8),
    ):
        read = np.asarray(Image.open(io.BytesIO(encode(pixels, PngSettings(filter=how, grey=grey)))))
        expected = np.round(pixels.mean(2)).astype(np.uint8) if grey else pixels
        np.testing.assert_array_equal(read, expected)


def test_structure_compresses_and_settings_are_said() -> None:
    noise, flat = torch.rand(64, 64, 3, generator=generator(0, "noise")), torch.full((64, 64, 3), 0.5)
    assert png_ratio(flat) < 0.02 < 0.9 < png_ratio(noise)
    ratios = {name: png_ratio(scene(name).render(64)) for name in SCENES}
    assert all(0.02 < ratio < 0.9 for ratio in ratios.values())
    smallest = {how: png_ratio(scene("face").render(64), PngSettings(filter=how)) for how in (*FILTERS, "adaptive")}
    assert len(set(smallest.values())) == len(smallest)
    assert PngSettings().about["zlib"]


def test_a_line_through_planted_depths() -> None:
    pictures = [scene(name).render(48) for name in SCENES]
    ratios = [png_ratio(picture) for picture in pictures]
    line = fit_depth(pictures, [3 + 40 * ratio for ratio in ratios])
    assert line.slope.value == pytest.approx(40)
    assert line.left_out.value == pytest.approx(0, abs=1e-9)
    assert predict_depth(pictures[1], line).value == pytest.approx(3 + 40 * ratios[1])
    outside = line.predict(2 * max(ratios))
    assert "outside" in outside.note
    assert "outside" not in line.predict(ratios[0]).note


def test_intervals_of_new_pictures_cover() -> None:
    stream, covered = np.random.default_rng(0), 0
    pictures = [scene(name).render(32) for name in SCENES]
    ratios = np.array([png_ratio(picture) for picture in pictures])
    for _ in range(300):
        line = fit_depth(pictures, (2 + 30 * ratios + stream.standard_normal(len(ratios))).tolist())
        ratio = float(stream.choice(ratios))
        found = line.predict(ratio)
        covered += (found.low or 0) <= 2 + 30 * ratio + stream.standard_normal() <= (found.high or 0)
    assert 0.91 <= covered / 300 <= 0.99


def test_measures_of_maps() -> None:
    z = coordinates(16, torch.float64)
    maps = torch.stack([z[:, 0], 2 * z[:, 0], -z[:, 0], z[:, 1], torch.ones(256, dtype=torch.float64)], 1)
    assert redundancy(maps) == (3, 6)  # the constant one is left out
    assert redundancy(maps, signed=True) == (1, 6)
    shifted = maps[:, [0, 3]] + 5
    assert redundancy(shifted) == (1, 1)  # both are mostly bright
    assert redundancy(shifted, centred=True) == (0, 1)
    assert effective_dimension(maps[:, [0, 3]]) == pytest.approx(2)
    assert effective_dimension(maps[:, :3]) == pytest.approx(1)
    grid = torch.stack([z[:, 0].reshape(16, 16), (-1.0) ** torch.arange(256).reshape(16, 16), torch.ones(16, 16)])
    smooth, rough, constant = roughness(grid).tolist()
    assert smooth < rough
    assert math.isnan(constant)


@present
def test_bred_networks_are_more_redundant_than_dense_ones() -> None:
    counted = {}
    for kind in ("picbreeder", "sgd"):
        maps = fer("skull", kind).maps(coordinates(128, torch.float64))[:-1]
        found = [redundancy(layer, 0.95) for layer in maps]
        counted[kind] = sum(a for a, _ in found) / sum(b for _, b in found)
    assert counted["picbreeder"] > 10 * counted["sgd"]


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "n": (lambda: welch_bound(0, 2), "n and d"),
    "order": (lambda: welch_bound(3, 2, 0), "order"),
    "dead": (lambda: interference(torch.zeros(3, 3)), "directions"),
    "NaN": (lambda: interference(torch.full((3, 3), torch.nan)), "directions"),
    "level": (lambda: PngSettings(level=10), "level"),
    "filter": (lambda: PngSettings(filter="best"), "filter"),
    "few": (lambda: fit_depth([torch.rand(8, 8, 3)] * 2, [1, 2]), "pictures"),
    "alike": (lambda: fit_depth([torch.zeros(8, 8, 3)] * 3, [1, 2, 3]), "pictures"),
    "sizes": (lambda: fit_depth([torch.rand(8, 8, 3), torch.rand(9, 9, 3), torch.rand(8, 8, 3)], [1, 2, 3]), "size"),
    "constant": (lambda: effective_dimension(torch.ones(9, 2)), "maps"),
    "threshold": (lambda: redundancy(torch.rand(9, 2), 1.5), "threshold"),
    "flat": (lambda: roughness(torch.rand(3, 1, 5)), "maps"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_argument(name: str) -> None:
    check_refused(*BAD[name])


def test_asymmetry_is_that_of_the_mirror_image() -> None:
    picture = torch.zeros(2, 4, 3)
    assert asymmetry(picture) == 0
    picture[0, 0] = 1  # one of 8 pixels, so two differ from their mirror image
    assert asymmetry(picture) == pytest.approx(math.sqrt(2 / 8))


@pytest.mark.parametrize("name", ["face", "butterfly"])
def test_moved_weights_leave_scenes_symmetric_and_random_networks_not(name: str) -> None:
    known = layerize(scene(name))
    random = ImageNetwork.dense(8, 3, "tanh", seed=1)
    for net, symmetric in ((known, True), (random, False)):
        rendering = Rendering(net, 24)
        moves = [Move(*entry, 0.5) for entry in net.entries()]
        found = moved_asymmetry(rendering, moves)
        assert list(found) == moves
        for move, (moved, extra) in list(found.items())[::9]:
            picture = naive(net, move, 24)
            assert moved == pytest.approx(float((picture - rendering.picture).square().mean().sqrt()), abs=1e-6)
            assert extra == pytest.approx(asymmetry(picture) - asymmetry(rendering.picture), abs=1e-6)
        lost = [extra for moved, extra in found.values() if moved > 0.02]
        # x itself feeds only what is mirrored, so nearly all moves keep the symmetry of these scenes
        assert (np.median(np.abs(lost)) < 1e-6) == symmetric
