"""What genomes, networks and their files refuse."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from tests.composition.test_genome import INPUTS, SMALL

from monoseme.composition.film import sweep_weight
from monoseme.composition.genome import Genome, Link, Node
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.xml_genome import load_genome, save_genome

COLOURED = tuple(Node(n, "out", "sin", n) for n in ("hue", "saturation", "brightness"))
BOMB = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;&b;">]><genome>&c;</genome>'


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


def small_xml(folder: Path) -> bytes:
    return save_genome(SMALL, folder / "small.xml").read_bytes()


def zipped(folder: Path, files: dict[str, bytes]) -> Path:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return written(folder, kept.getvalue())


def with_node(*nodes: Node) -> Genome:
    return replace(SMALL, nodes=(*SMALL.nodes, *nodes))


def with_link(link: Link) -> Genome:
    return replace(SMALL, links=(*SMALL.links, link))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cycle": (lambda _: with_link(Link("z", "i", "h", 1.0)), "cycle"),
    "activation": (lambda _: with_node(Node("q", "hidden", "gausian")), "gaussian"),
    "kind": (lambda _: with_node(Node("q", "hid")), "kind"),
    "input": (lambda _: with_node(Node("q", "in", "identity", "z")), "label"),
    "twice": (lambda _: with_node(Node("h", "hidden")), "ids"),
    "dangling": (lambda _: with_link(Link("z", "q", "h", 1.0)), "links"),
    "infinite": (lambda _: with_link(Link("z", "x", "h", float("inf"))), "finite"),
    "no output": (lambda _: Genome(INPUTS, ()), "outputs"),
    "two outputs": (lambda _: with_node(Node("q", "out", "identity", "hue")), "outputs"),
    "unconnected": (lambda _: layerize(Genome((*INPUTS, *COLOURED), ())), "genome"),
    "parallel": (lambda _: layerize(with_link(Link("z", "x", "h", 1.0))), "links"),
    "missing": (lambda p: load_genome(p / "none.xml"), "path"),
    "text": (lambda p: load_genome(written(p, b"hello")), "genome"),
    "binary": (lambda p: load_genome(written(p, b"\xff\xfe\x00\x01")), "path"),
    "no genome": (lambda p: load_genome(written(p, b"<data/>")), "genome"),
    "half": (lambda p: load_genome(written(p, b"<genome><nodes><node type='in'/></nodes></genome>")), "path"),
    "weight": (lambda p: load_genome(written(p, small_xml(p).replace(b">-0.7<", b">seven<"))), "weight"),
    "entities": (lambda p: load_genome(written(p, BOMB)), "entities"),
    "two files": (lambda p: load_genome(zipped(p, {"a": b"1", "b": b"2"})), "one file"),
    "zip bomb": (lambda p: load_genome(zipped(p, {"a": b"0" * (17 << 20)})), "bytes"),
    "broken zip": (lambda p: load_genome(written(p, b"PK\x03\x04nonsense")), "zip"),
    "size": (lambda _: SMALL.render(1), "size"),
    "outputs of a network": (lambda _: ImageNetwork.dense(3, 1, outputs=2), "outputs"),
    "names": (lambda _: ImageNetwork.dense(3, 1, ["sin"]), "activations"),
    "NaN": (lambda _: ImageNetwork([torch.full((2, 4), torch.nan), torch.ones(1, 2)], [["sin"] * 2]), "finite"),
    "shape": (lambda _: ImageNetwork([torch.ones(2, 3), torch.ones(1, 2)], [["sin"] * 2]), "shape"),
    "link": (lambda _: sweep_weight(SMALL, "aa"), "which"),
    "entry": (lambda _: sweep_weight(ImageNetwork.dense(3, 1), (5, 0, 0)), "which"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_argument(name: str, tmp_path: Path) -> None:
    call, says = BAD[name]
    check_refused(lambda: call(tmp_path), says)


def test_a_path_in_an_archive_is_never_written(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"../../evil": small_xml(tmp_path)})
    assert load_genome(path) == SMALL
    assert not (tmp_path.parent / "evil").exists()
    assert not (tmp_path.parent.parent / "evil").exists()
