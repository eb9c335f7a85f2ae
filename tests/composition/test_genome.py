"""Genomes and networks: the same picture from graph and layers; the public ones where they are present."""

from __future__ import annotations

import colorsys
import zipfile
from pathlib import Path

import pytest
import torch
from tests.composition.public_genomes import PUBLIC, TABLE, fer, present

from monoseme.composition.canvas import coordinates, hsv_to_rgb, to_rgb
from monoseme.composition.film import sweep_weight
from monoseme.composition.genome import Genome, Link, Node
from monoseme.composition.layerize import COPY, layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.scenes import SCENES, scene
from monoseme.composition.xml_genome import load_genome, read_genome, save_genome

INPUTS = tuple(Node(n, "in", "identity", n) for n in ("x", "y", "d", "bias"))
SMALL = Genome(
    (*INPUTS, Node("h", "hidden", "gaussian"), Node("i", "out", "sin", "ink")),
    (Link("a", "x", "h", 1.5, "width", (-3.0, 3.0)), Link("b", "h", "i", -0.7), Link("c", "y", "i", 0.25)),
)


@pytest.mark.parametrize("name", SCENES)
def test_layers_render_the_graphs_picture(name: str) -> None:
    genome = scene(name)
    net = layerize(genome, torch.float64)
    torch.testing.assert_close(net.render(40), genome.render(40), rtol=0, atol=1e-12)
    links = [link for link in genome.links if link.weight != 0]
    carried = [origin for origin in net.origin.values() if origin != COPY]
    assert sorted(carried) == sorted(link.id for link in links)
    assert len(net.entries()) == len(net.origin)
    assert set(net.labels.values()) == {link.label for link in links if link.label}
    assert len({len(bank.names) for bank in net.banks}) == 1


def test_a_small_graph_by_hand() -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    ink = torch.sin(-0.7 * (2 * torch.exp(-((1.5 * x) ** 2)) - 1) + 0.25 * x[:, None])
    torch.testing.assert_close(SMALL.render(5), ink.abs().clamp(0, 1)[..., None].expand(5, 5, 3))
    assert SMALL.depths == {"x": 0, "y": 0, "d": 0, "bias": 0, "h": 1, "i": 2}
    moved = SMALL.with_weights({"b": 0.0})
    torch.testing.assert_close(moved.render(3)[0, :, 0], torch.sin(torch.tensor(0.25)).double().expand(3))


def test_coordinates_and_colours_are_picbreeders() -> None:
    grid = coordinates(3, torch.float64).reshape(3, 3, 4)
    assert grid[0, 0].tolist() == pytest.approx([-1, -1, 1.4 * 2**0.5, 1])
    assert grid[0, 2].tolist()[:2] == [1, -1]
    assert grid[1, 1].tolist() == [0, 0, 0, 1]
    for h, s, v in torch.rand(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist():
        made = hsv_to_rgb(*(torch.tensor(c, dtype=torch.float64) for c in (h, s, v)))
        assert made.tolist() == pytest.approx(colorsys.hsv_to_rgb(h, s, v))
    raw = torch.tensor([[-0.25, 2.0, -0.5], [1.75, -1.0, 3.0]])
    assert to_rgb(raw)[0].tolist() == pytest.approx(list(colorsys.hsv_to_rgb(0.75, 1, 0.5)), abs=1e-6)
    assert to_rgb(raw)[1].tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("name", SCENES)
def test_what_is_written_is_read_back_equal(name: str, tmp_path: Path) -> None:
    genome = scene(name)
    assert load_genome(save_genome(genome, tmp_path / "genome.xml")) == genome
    with zipfile.ZipFile(tmp_path / "genome.zip", "w") as archive:
        archive.write(tmp_path / "genome.xml", "a")
    assert load_genome(tmp_path / "genome.zip") == genome
    assert load_genome(save_genome(SMALL, tmp_path / "small.xml")) == SMALL


def test_two_roots_as_cppn_x_writes_them(tmp_path: Path) -> None:
    text = save_genome(SMALL, tmp_path / "a.xml").read_text()
    two = text.replace('<data version="1.0">', '<cppn-data version="1.2"/>\n<data version="1.0">', 1)
    assert read_genome(two) == SMALL


def test_dense_networks_have_the_size_and_spread_they_should() -> None:
    net = ImageNetwork.dense(22, 12, "tanh", seed=3)
    assert sum(w.numel() for w in net.weights) == 5478
    assert float(torch.cat([w.detach().flatten() for w in net.weights[1:-1]]).var()) == pytest.approx(1 / 22, rel=0.05)
    assert torch.equal(net.weights[2], ImageNetwork.dense(22, 12, "tanh", seed=3).weights[2])
    mixed = ImageNetwork.dense(3, 2, ["sin", "gaussian", "relu"]).double()
    z = coordinates(4, torch.float64)
    by_hand = z
    for w in mixed.matrices[:-1]:
        a = by_hand @ w.T
        by_hand = torch.stack([torch.sin(a[:, 0]), 2 * torch.exp(-(a[:, 1] ** 2)) - 1, a[:, 2].clamp(min=0)], 1)
    torch.testing.assert_close(mixed(z), by_hand @ mixed.matrices[-1].T)
    assert [m.shape[1] for m in mixed.maps(z)] == [3, 3, 3]


def test_masks_take_weights_away() -> None:
    net = ImageNetwork.dense(5, 2)
    before = net.render(8)
    net.masks[1][2] = False
    assert len(net.entries()) == 5 * 4 + 25 - 5 + 15
    masked = net.render(8)
    with torch.no_grad():
        net.weights[1][2] += 9.0
    torch.testing.assert_close(net.render(8), masked, rtol=0, atol=0)
    assert float((before - masked).abs().max()) > 1e-6


@present
@pytest.mark.parametrize("name", TABLE)
def test_public_genomes_have_the_counts_of_the_table(name: str) -> None:
    genome = load_genome(PUBLIC / f"{name}.zip")
    net = layerize(genome, torch.float64)
    counted = (
        *(len(genome.nodes), sum(link.weight != 0 for link in genome.links), len(net.banks), len(net.banks[0].names)),
        *(sum(w.numel() for w in net.weights), len(net.entries()), sum(o == COPY for o in net.origin.values())),
    )
    assert counted == TABLE[name]
    torch.testing.assert_close(net.render(64), genome.render(64), rtol=0, atol=1e-12)


@present
@pytest.mark.parametrize("name", TABLE)
def test_public_genomes_render_to_the_shipped_networks_outputs(name: str) -> None:
    picture = load_genome(PUBLIC / f"{name}.zip").render(128)
    assert float((fer(name).render(128) - picture).abs().mean()) < 1e-5


# (layer, to, from) of weights whose effect is known, and where it is to be seen: rows and columns of 128
SWEEPS = {
    "mouth": ((7, 15, 15), (slice(84, 104), slice(36, 92))),
    "eyes": ((9, 15, 4), (slice(46, 74), slice(24, 104))),
    "jaw": ((0, 15, 1), (slice(80, 118), slice(20, 108))),
}
HEAD = (slice(10, 118), slice(20, 108))


@present
@pytest.mark.parametrize("name", SWEEPS)
def test_known_weights_of_the_skull_move_the_region_they_are_known_for(name: str) -> None:
    which, region = SWEEPS[name]
    strip = sweep_weight(fer("skull"), which, (-0.5, 0.0, 0.5), 128)
    change = (strip - strip[1]).abs().mean((0, 3))
    assert float(change.max()) > 0.1
    assert float(change[region].mean()) > 1.3 * float(change[HEAD].mean())


@present
def test_the_skull_winks() -> None:
    strip = sweep_weight(fer("skull"), (9, 15, 0), (-0.33, 0.0, 0.5), 128)[:, 46:74, 24:104].mean(-1)
    symmetric, as_it_is, winking = (strip - strip.flip(2)).abs().mean((1, 2)).tolist()
    assert symmetric < as_it_is < winking
