"""`monoseme optimality ...`: what is printed and written, with a made certification, and once for real."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.certifications import ENCODER, made_atoms, made_certification
from tests.cli.conftest import Call, open_toy

import monoseme as ms
from monoseme.cli.concepts import drawn, labels_of
from monoseme.optimality import Certification
from monoseme.records import CertificateTable
from monoseme.store import PictureFolder, Sample

LATENTS = 24


@pytest.fixture(scope="module")
def scalar(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    out, held = tmp_path_factory.mktemp("scalar") / "run", ms.ActivationStore.open(store)
    ms.fit(ms.featurizers.ReLU(held.d_in, LATENTS), held, out=out, steps=60, batch_size=64, lam=0.02)
    return out


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Answers with a made certification, and keeps what was asked, under the names of the real function."""
    calls: list[dict[str, Any]] = []
    takes = inspect.signature(ms.certify)

    def answer(*given: Any, **named: Any) -> Certification:
        calls.append(dict(takes.bind(*given, **named).arguments))
        return replace(made_certification(LATENTS), atoms=made_atoms(LATENTS))

    monkeypatch.setattr(ms, "certify", answer)
    return calls


def test_options_reach_the_library(call: Call, scalar: Path, asked: list[dict[str, Any]], store: Path):
    assert call("optimality", "certify", scalar)[0] == 0
    typed = "--lam 0.3 --codes resolved --about rows --fixed-bias --split test --max-rows 50 --seed 3"
    assert call("optimality", "certify", scalar, "--store", store, *typed.split())[0] == 0
    first, second = asked
    assert (first["codes"], first["lam"], first["about"], first["learned_bias"]) == ("as-is", None, "population", True)
    wanted = {"codes": "resolved", "lam": 0.3, "about": "rows", "learned_bias": False, "split": "test", "max_rows": 50}
    assert {name: second[name] for name in wanted} == wanted
    assert second["seed"] == 3
    assert isinstance(second["x"], ms.featurizers.Featurizer)
    assert first["atoms"].path.samefile(store)
    assert second["atoms"].path.samefile(store)


def test_the_text_names_the_worst_in_words(call: Call, scalar: Path, asked: list[dict[str, Any]]):
    code, said, error = call("optimality", "certify", scalar)
    found = made_certification(LATENTS)
    bad = sorted((f for f in found.features if f.verdict == "unstable"), key=lambda f: -f.removable_loss)
    assert (code, error, len(asked)) == (0, "", 1)
    counts = [sum(f.verdict == v for f in found.features) for v in ("unstable", "stable", "unknown")]
    assert said.startswith("{} features: {} unstable, {} stable, {} not known\n".format(LATENTS, *counts))
    assert f"note: {ENCODER}\n" in said
    assert re.search(r"^gap +8\.21 ‖x‖²  ", said, re.M)
    assert "not known (too many rows to hold in memory)" in said
    assert [line.split("  ")[-1].strip() for line in said.splitlines()[-len(bad) :]] == [f.words for f in bad]
    assert "page" not in said


def test_record_and_page_are_written_and_replaced(
    call: Call, scalar: Path, asked: list[dict[str, Any]], tmp_path: Path
):
    for title in ("First", "Second"):
        code, said, _ = call("optimality", "certify", scalar, "--out", tmp_path / "out", "--title", title)
        page = tmp_path / "out" / "certificate" / "index.html"
        assert code == 0
        assert said.endswith(f"page  {page}\n")
        assert f"<h1>{title}</h1>" in page.read_text(encoding="utf-8")
        table = CertificateTable.load(tmp_path / "out")
        assert table.title == title
        assert table.facts["Rows of"] == "toy (pretrained), blocks.9"
        assert table.facts["Dictionary"] == f"ReLU, {LATENTS} blocks of size 1"
        assert len(table.pairs) > 0
    assert len(asked) == 2


@pytest.mark.parametrize("other", ["--lam 0.3", "--max-rows 50", "--seed 1", "--about rows", "--fixed-bias"])
def test_certificates_of_other_options_are_kept(
    call: Call, scalar: Path, asked: list[dict[str, Any]], tmp_path: Path, other: str
):
    assert call("optimality", "certify", scalar, "--out", tmp_path / "out")[0] == 0
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    code, said, error = call("optimality", "certify", scalar, "--out", tmp_path / "out", *other.split())
    assert (code, said, error.count("\n"), len(asked)) == (2, "", 1, 1)  # before any work
    assert error.startswith("monoseme: out must hold no certificates of other options; got ")
    assert "lam read from the codes, codes as-is, about population, bias learned, split train" in error
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("name", ["certificates.json", "certificate/mine.txt"])
def test_a_folder_of_somebody_else_is_left_alone(
    call: Call, scalar: Path, asked: list[dict[str, Any]], tmp_path: Path, name: str
):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    code, _, error = call("optimality", "certify", scalar, "--out", tmp_path)
    assert (code, error.count("\n"), asked) == (2, 1, [])  # before any work
    assert error.startswith("monoseme: out must")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / name).read_text() == "mine"


def test_for_real(call: Call, scalar: Path, tmp_path: Path):
    code, said, error = call("optimality", "certify", scalar, "--out", tmp_path / "out", "--max-rows", 300)
    assert (code, error) == (0, "")
    table = CertificateTable.load(tmp_path / "out")
    assert len(table.features) == LATENTS
    assert f"{LATENTS} features: {table.count('unstable')} unstable" in said
    assert len(table.pairs) > 0
    assert table.facts["Rows"] == "300"
    assert any("L1-equivalent" in note for note in table.notes)


def test_a_checkpoint_that_saelens_wrote(call: Call, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules[open_toy.__module__], "WIDTH", 16)  # as wide as the checkpoint
    source = PictureFolder(pictures, 84)
    held = ms.harvest(open_toy("pretrained", 0), source, at="blocks.9", out=tmp_path / "store")
    checkpoint = Path(__file__).parents[1] / "interop" / "fixtures" / "saelens" / "standard"
    typed = ("--store", held.path, "--out", tmp_path / "out", "--lam", 0.1)
    code, said, error = call("optimality", "certify", f"saelens:{checkpoint}", *typed)
    assert (code, error) == (0, "")
    assert "48 features: " in said
    assert len(CertificateTable.load(tmp_path / "out").features) == 48
    code, _, error = call("optimality", "certify", f"saelens:{checkpoint}")
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("monoseme: --store must be given")


def test_wide(call: Call, store: Path):
    rows = ms.ActivationStore.open(store).rows("train")
    limit = ms.optimality.wide_limit(rows, 0.05)
    code, said, error = call("optimality", "wide", "--store", store, "--lam", 0.05)
    assert (code, error) == (0, "")
    assert f"least loss       {limit.loss:.6g} ‖x‖²" in said
    assert f"narrowest width  {limit.rays:,}{limit.reading}\n" in said
    assert f"rows             {len(rows):,}" in said
    few = call("optimality", "wide", "--store", store, "--lam", 0.05, "--max-rows", 40)[1]
    assert "rows             40\n" in few


@pytest.mark.parametrize(
    ("values", "words"), [((0.0, 0, 0, 5, 6), "a single atom, +1"), ((0.0, 4, 5, 6, 7), "an antipodal pair")]
)
@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_rank_one(call: Call, tmp_path: Path, values: tuple[float, ...], words: str, shape: tuple[int, ...]):
    np.save(tmp_path / "v.npy", np.array(values).reshape(shape))
    code, said, error = call("optimality", "rank-one", tmp_path / "v.npy", "--lam", 0.1)
    assert (code, error) == (0, "")
    assert said.startswith(f"optimal            {words}\n")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """The pictures again, a third of them in each of two folders that name them, the rest without a label."""
    out, files = tmp_path_factory.mktemp("labelled") / "store", sorted(pictures.iterdir())
    samples = [
        Sample(f.name, np.asarray(Image.open(f)), {"label": "ab"[i % 3]} if i % 3 < 2 else None)
        for i, f in enumerate(files)
    ]
    return ms.harvest(open_toy("pretrained", 0), samples, at="blocks.9", out=out).path


def test_hypothesis_of_directions(call: Call, store: Path, tmp_path: Path):
    rows = ms.ActivationStore.open(store).rows("train")
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 3)))[0].T.copy()
    np.save(tmp_path / "c.npy", directions)
    x = next(iter(rows.in_order(len(rows)))).x.double().numpy()
    wanted = ms.optimality.hypothesis(x, 0.05, concepts=directions, names=("one", "two", "three"))
    typed = ("--store", store, "--lam", 0.05, "--names", "one", "two", "three", "--out", tmp_path / "out")
    code, said, error = call("optimality", "hypothesis", tmp_path / "c.npy", *typed)
    assert (code, error) == (0, "")
    assert said == f"{wanted.table()}\n\npage  {tmp_path / 'out' / 'certificate' / 'index.html'}\n"
    table = CertificateTable.load(tmp_path / "out")
    typed = ("--store", store, "--lam", 0.06, "--out", tmp_path / "out")
    code, _, error = call("optimality", "hypothesis", tmp_path / "c.npy", *typed)
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("monoseme: out must hold no certificates of other options")
    assert table.facts["Feature 1"] == f"two: {wanted.fates[1]}"


def test_hypothesis_of_labels(call: Call, labelled: Path):
    code, said, error = call("optimality", "hypothesis", "labels", "--store", labelled, "--lam", 0.05)
    assert (code, error) == (0, "")
    assert [line.partition(":")[0] for line in said.splitlines()] == ["a", "b"]
    opened = ms.ActivationStore.open(labelled)
    batch = drawn(opened, "train", None, 0)
    on, names = labels_of(opened, batch.sample)
    assert names == ("a", "b")
    for i, number in enumerate(batch.sample.tolist()):
        target = opened.targets.get(opened.ids[number])
        assert on[i].tolist() == [float(target is not None and target["label"] == name) for name in names]
    assert set(on.sum(1)) == {0.0, 1.0}


MISTAKES = {
    "store without labels": ("optimality hypothesis labels --store STORE --lam 1", "CONCEPTS.npy|labels must be"),
    "names of labels": ("optimality hypothesis labels --store STORE --lam 1 --names a", "--names must be left out"),
    "no concepts": ("optimality hypothesis nowhere.npy --store STORE --lam 1", "CONCEPTS.npy must be there"),
    "pickled concepts": ("optimality hypothesis PICKLED --store STORE --lam 1", "CONCEPTS.npy must be a .npy file"),
    "concepts of another width": ("optimality hypothesis TABLE --store STORE --lam 1", "concepts must have the shape"),
    "names of others": ("optimality hypothesis EYE --store STORE --lam 1 --names a", "names must be 12"),
    "no verb": ("optimality", "certify, wide, rank-one, hypothesis"),
    "nearly a verb": ("optimality certfy RUN", "certfy must be a known verb of optimality"),
    "nearly an option": ("optimality certify RUN --code as-is", "Did you mean --codes"),
    "option of the group's verb": ("optimality wide --stor STORE --lam 1", "--stor must be a known option of wide"),
    "no dictionary": ("optimality certify", "RUN|DICTIONARY"),
    "no store of a dictionary": ("optimality certify nowhere", "nowhere"),
    "store as a run": ("optimality certify STORE", "this is a store."),
    "lam of zero": ("optimality certify RUN --lam 0", "lam must be positive"),
    "lam missing": ("optimality certify RUN --codes resolved", "lam must be given"),
    "blocks without lam": ("optimality certify FITTED", "lam must be given for blocks"),
    "wide without lam": ("optimality wide --store STORE", "--lam"),
    "wide of nothing": ("optimality wide --store nowhere --lam 1", "nowhere"),
    "wide of zero": ("optimality wide --store STORE --lam 0", "lam must be positive"),
    "no file": ("optimality rank-one nowhere.npy --lam 1", "FILE.npy must be there"),
    "pickled": ("optimality rank-one PICKLED --lam 1", "FILE.npy must be a .npy file of numbers"),
    "integers": ("optimality rank-one INTEGERS --lam 1", "values must be floating-point numbers"),
    "table": ("optimality rank-one TABLE --lam 1", "values must be one column"),
    "archive": ("optimality rank-one ARCHIVE --lam 1", "FILE.npy must hold one array"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_one_line_and_exit_code_two(line: str, call: Call, store: Path, scalar: Path, fitted: Path, tmp_path: Path):
    typed, named = MISTAKES[line]
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    np.save(tmp_path / "integers.npy", np.arange(5))
    np.save(tmp_path / "table.npy", np.ones((5, 2)))
    np.save(tmp_path / "eye.npy", np.eye(12))
    np.savez(tmp_path / "archive.npz", a=np.ones(5))
    places = {"STORE": store, "RUN": scalar, "FITTED": fitted} | {
        name.upper(): tmp_path / f"{name}.npy" for name in ("pickled", "integers", "table", "eye")
    } | {"ARCHIVE": tmp_path / "archive.npz"}  # fmt: skip
    code, said, error = call(*(places.get(word, word) for word in typed.split()))
    assert (code, said) == (2, "")
    assert error.startswith("monoseme: ")
    assert error.count("\n") == 1
    assert named in error
    assert "Traceback" not in error
