"""Graph sparsity on graphs that can be counted by hand, and maps against parts by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.composition import scene
from monoseme.composition.canvas import coordinates
from monoseme.composition.genome import Genome, Link, Node
from monoseme.composition.graph_sparsity import graph_sparsity
from monoseme.composition.layerize import layerize
from monoseme.composition.monosemantic import QUANTILES, best_iou, match_parts, mutual_information
from monoseme.composition.network import ImageNetwork
from monoseme.composition.scenes import SCENES, parts
from monoseme.core.seeds import generator


def test_a_graph_counted_by_hand() -> None:
    nodes = [Node(n, "in", "identity", n) for n in ("x", "y", "d", "bias")]
    nodes += [Node("a", "hidden", "sin"), Node("b", "hidden", "sin"), Node("dead", "hidden", "cos")]
    nodes += [Node("ink", "out", "identity", "ink")]
    ends = [("x", "a"), ("y", "a"), ("a", "b"), ("x", "b"), ("b", "ink"), ("y", "dead")]
    links = [Link(f"{s}>{t}", s, t, 1.0) for s, t in ends] + [Link("zero", "d", "b", 0.0)]
    found = graph_sparsity(Genome(tuple(nodes), tuple(links)))
    assert (found.nodes, found.links, found.depth, found.arity_max) == (3, 5, 3, 2)
    assert found.arity_mean == pytest.approx(5 / 3)
    assert found.primitives == 2  # sin of two, identity of one
    assert found.density == pytest.approx(5 / 4)  # 2 inputs, then one node a layer: 2 + 1 + 1; one link skips


def test_a_dense_network_is_dense() -> None:
    found = graph_sparsity(ImageNetwork.dense(5, 3, "tanh"))
    assert (found.nodes, found.links, found.depth, found.arity_max, found.density) == (18, 85, 4, 5, 1.0)
    assert found.primitives == 3  # tanh of 4, tanh of 5, identity of 5


@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_sparser_than_dense_networks(name: str) -> None:
    net = layerize(scene(name))
    dense = graph_sparsity(ImageNetwork.dense(len(net.banks[0].names), len(net.banks), "tanh"))
    own = graph_sparsity(net)
    assert own.arity_mean < dense.arity_mean
    assert own.density < 0.7
    assert own.links == len(net.entries())


def small() -> tuple[torch.Tensor, torch.Tensor]:
    maps = torch.randn(64, 3, generator=generator(0, "maps"), dtype=torch.float64)
    masks = torch.rand(2, 64, generator=generator(1, "masks")) < 0.3
    return maps, masks


def test_overlap_is_that_of_loops() -> None:
    maps, masks = small()
    found = best_iou(maps, masks)
    for n in range(maps.shape[1]):
        for m, mask in enumerate(masks):
            best = 0.0
            for q in QUANTILES:
                cut = float(torch.quantile(maps[:, n], q))
                for sign in (1, -1):
                    above = sign * maps[:, n] > sign * cut
                    union = int((above | mask).sum())
                    best = max(best, int((above & mask).sum()) / union if union else 0.0)
            assert float(found[n, m]) == pytest.approx(best, abs=1e-12)


def test_information_is_that_of_a_table() -> None:
    maps, masks = small()
    found = mutual_information(maps, masks)
    for n in range(maps.shape[1]):
        edges = np.quantile(maps[:, n].numpy(), np.linspace(0, 1, 17)[1:-1])
        bins = np.searchsorted(edges, maps[:, n].numpy(), side="right")
        for m, mask in enumerate(masks.numpy()):
            table = np.zeros((2, 16))
            for b, inside in zip(bins, mask, strict=True):
                table[int(inside), b] += 1
            joint = table / 64
            product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
            value = float(sum(p * math.log(p / q) for p, q in zip(joint.flat, product.flat, strict=True) if p > 0))
            cells, rows, columns = (table > 0).sum(), (table.sum(1) > 0).sum(), (table.sum(0) > 0).sum()
            value -= (cells - rows - columns + 1) / 128
            assert float(found[n, m]) == pytest.approx(max(value, 0.0), abs=1e-12)


def test_a_map_that_is_a_part_is_found_whatever_its_sign_and_scale() -> None:
    masks = parts("house", 32)
    maps = torch.stack([-3.0 * mask.flatten().double() + 1 for mask in masks.values()], 1)
    found = match_parts(maps, masks)
    assert [name for name, _ in found.best] == list(masks)
    assert found.iou.value == pytest.approx(1.0)
    assert found.iou_moved < 0.7
    assert found.information.value is not None
    assert found.information.value > found.information_moved


@pytest.mark.parametrize("name", SCENES)
def test_known_networks_match_their_parts_better_than_random_ones(name: str) -> None:
    coords, masks, net = coordinates(32), parts(name, 32), layerize(scene(name))
    width, depth = len(net.banks[0].names), len(net.banks)
    random = ImageNetwork.dense(width, depth, (["gaussian", "sin", "sigmoid", "identity"] * 5)[:width])
    own, other = (match_parts(torch.cat(one.maps(coords)[:-1], 1), masks, draws=2) for one in (net, random))
    assert own.iou.value is not None
    assert other.iou.value is not None
    assert own.iou.value - own.iou_moved > other.iou.value - other.iou_moved


def test_dead_maps_are_left_out() -> None:
    masks = {"left": torch.arange(16).reshape(4, 4) % 4 < 2}
    found = match_parts(torch.ones(16, 2, dtype=torch.float64), masks)
    assert found.best == ()
    assert found.iou.value is None


def test_wrong_input() -> None:
    masks = {"left": torch.arange(16).reshape(4, 4) % 4 < 2}
    check_refused(lambda: match_parts(torch.ones(9, 2), masks), "parts['left']")
    check_refused(lambda: match_parts(torch.full((16, 2), torch.nan), masks), "maps")
    check_refused(lambda: match_parts(torch.ones(16, 2), {}), "parts")
