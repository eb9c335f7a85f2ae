"""What joins the rooms: a run finds its store again, from wherever it is looked at."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import monoseme as ms
from monoseme.api import store_of
from monoseme.core.seeds import generator
from monoseme.records import RunRecord


def make(folder: Path) -> Path:
    x = torch.randn(30, 4, 3, generator=generator(0))
    store = ms.harvest(nn.Sequential(nn.Identity()), x, at="0", out=folder / "store")
    ms.fit(ms.featurizers.TopK(3, 4, k=1), store, steps=2, batch_size=8, out=folder / "runs" / "run")
    return folder / "runs" / "run"


def test_a_run_and_its_store_may_be_moved_together(tmp_path: Path) -> None:
    make(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new place")
    assert store_of(tmp_path / "new place" / "runs" / "run").path.samefile(tmp_path / "new place" / "store")


def test_a_run_behind_a_link_finds_its_store(tmp_path: Path) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "runs").symlink_to(tmp_path / "disk" / "deep")
    run = make(tmp_path)
    assert store_of(run).path.samefile(tmp_path / "store")
    assert store_of(tmp_path / "disk" / "deep" / "run").path.samefile(tmp_path / "store")


def test_a_store_opened_before_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    store = ms.ActivationStore.open("store")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ms.fit(ms.featurizers.TopK(3, 4, k=1), store, steps=2, batch_size=8, out="run")
    assert store_of("run").path.samefile(tmp_path / "store")


@pytest.mark.parametrize("text", ["5", "{}", '{"store": 5}', '{"store": null}', "["])
def test_an_origin_edited_by_hand_is_refused(tmp_path: Path, text: str) -> None:
    run = make(tmp_path)
    (run / "origin.json").write_text(text)
    with pytest.raises(ms.UserError, match=r"origin\.json") as error:
        store_of(run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", ["5", "[]", "null", "{}", '{"step": "x"}'])
def test_a_log_edited_by_hand_is_refused(tmp_path: Path, line: str) -> None:
    run = make(tmp_path)
    (run / "log.jsonl").write_text(line + "\n")
    with pytest.raises(ms.UserError, match=r"out must hold an undamaged log; got .*line 1"):
        ms.page(run)


def test_a_control_may_lack_a_number(tmp_path: Path) -> None:
    run = make(tmp_path)
    store, featurizer = store_of(run), ms.load(run)
    numbers = ms.evaluate(featurizer, store).including([ms.Outcome("extra", 1.0, "1")])
    page = ms.page(run, controls={"shuffled": ms.evaluate(featurizer, store)}, evaluation=numbers)
    (table,) = RunRecord.load(run).comparisons
    cell = table.rows[1][table.columns.index("extra")]
    assert isinstance(cell, ms.Outcome)
    assert (cell.value, cell.note) == (None, "not computed")
    assert "not computed" in page.read_text(encoding="utf-8")


def test_a_path_for_pictures_is_told_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(ms.UserError, match=r"got str\. A folder: PictureFolder\(path\)"):
        ms.harvest(nn.Sequential(nn.Identity()), "photos", at="0", out=tmp_path / "other")  # pyright: ignore


def test_a_run_finds_its_store_at_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "cache"))
    x = torch.randn(30, 4, 3, generator=generator(0))
    url = "memory://api/store"
    store = ms.harvest(nn.Sequential(nn.Identity()), x, at="0", out=url)
    ms.fit(ms.featurizers.TopK(3, 4, k=1), store, steps=2, batch_size=8, out=tmp_path / "run")
    found = store_of(tmp_path / "run")
    assert found.url == url
    assert found.manifest == store.manifest
