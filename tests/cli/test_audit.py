"""`monoseme audit`: pictures and text from the command line to a page; every mistake is one line."""

from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.store.conftest import Bytes, TinyLM

from monoseme.models import HookedModel, ModelFacts
from monoseme.models.open import REGISTRY
from monoseme.records import RunRecord

SMALL = ("--n-blocks", 8, "--block-size", 2, "--k", 2, "--steps", 8, "--batch-size", 32, "--spliced", 3)


@pytest.fixture(autouse=True)
def language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_lm(weights: str, seed: int) -> HookedModel:
        return HookedModel(TinyLM(), ModelFacts("tiny-lm", weights, tokenizer=Bytes(), context=64))

    monkeypatch.setitem(REGISTRY, "tiny-lm", open_lm)


def numbers(out: Path) -> dict[str, float | None]:
    return {o.name: o.value for group in RunRecord.load(out).outcomes for o in group.outcomes}


def test_pictures_beside_random_weights_with_a_broken_file(call: Call, pictures: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for picture in pictures.iterdir():
        (folder / picture.name).write_bytes(picture.read_bytes())
    (folder / "broken.png").write_bytes(b"no picture")
    code, said, errors = call("audit", "toy", folder, "--out", out, "--size", 84, "--control", *SMALL)
    assert code == 0, errors
    assert "harvest toy (pretrained) at blocks.6" in said  # seven of ten layers: two thirds are done
    assert "random weights" in said
    assert said.rstrip().endswith(str(out / "pages" / "index.html"))
    assert numbers(out)["skipped_files"] == 1
    record = RunRecord.load(out)
    assert any("broken.png" in note for note in record.notes)
    assert "A toy." in record.notes
    again = call("audit", "toy", folder, "--out", out, "--size", 84, "--control", *SMALL)[1]
    assert "the page is there already" in again


def test_text_and_then_the_verbs_of_a_run(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = ("--at", "block", "--context", 24, "--limit", 12, "--max-norm", 4, "--title", "A title")
    code, said, errors = call("audit", "tiny-lm", "topics", *text, *SMALL)
    assert code == 0, errors
    out = Path("runs/audit-tiny-lm-topics")
    assert str(out) in said
    assert RunRecord.load(out).title == "A title"
    assert numbers(out)["empty_documents"] == 0
    assert call("evaluate", out / "run")[0] == 0


MISTAKES = {
    "unknown model": ("toi PICTURES", "Did you mean toy"),
    "no data": ("toy", "DATA"),
    "empty data": ("toy EMPTY", "hold pictures"),
    "missing": ("tiny-lm nowhere --at block", "path must be a text file or a folder of them"),
    "empty text": ("tiny-lm BLANK --at block --context 24", "hold at least one token of text"),
    "vision with text": ("toy topics", "DATA must be pictures for toy, which has no tokenizer"),
    "vision with a text file": ("toy BLANK/a.txt", "DATA must be pictures for toy"),
    "text with pictures": ("tiny-lm wheels --at block", "DATA must be text for tiny-lm"),
    "no layers": ("tiny-lm topics", "at must name a hook of a model without numbered layers"),
    "hook typo": ("toy PICTURES --at block.9 --size 84", "Did you mean blocks.9"),
    "unknown featurizer": ("toy PICTURES --size 84 --featurizer TopKK", "Did you mean TopK"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_one_line(line: str, call: Call, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank").mkdir()
    (tmp_path / "blank" / "a.txt").write_text(" \n")
    typed, named = MISTAKES[line]
    places = {
        "PICTURES": pictures, "EMPTY": tmp_path / "empty", "BLANK": tmp_path / "blank",
        "BLANK/a.txt": tmp_path / "blank" / "a.txt",
    }  # fmt: skip
    code, _, errors = call("audit", *(places.get(word, word) for word in typed.split()), "--out", tmp_path / "out")
    assert code == 2
    assert errors.count("\n") == 1
    assert named in errors
    assert "Traceback" not in errors


def test_harvest_tells_pictures_from_text_too(call: Call, tmp_path: Path) -> None:
    code, _, errors = call("harvest", "toy", "topics", "--at", "blocks.9", "--out", tmp_path / "s")
    assert (code, errors.count("\n")) == (2, 1)
    assert "DATA must be pictures for toy" in errors
