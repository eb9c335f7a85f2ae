"""A record survives its folder bit for bit; a damaged one is refused in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.records import (
    Comparison,
    Curve,
    Histogram,
    OutcomeGroup,
    RunRecord,
    SampleView,
    Scatter,
    ScatterPoint,
)
from monoseme.records.run import relative_path


def card(block: int, grid: tuple[int, int], shown: int, dots: int) -> BlockCard:
    stream = rng(block, "card")
    items = []
    for i in range(shown):
        presence = (stream.uniform(size=grid[0] * grid[1]) * (stream.uniform(size=grid[0] * grid[1]) < 0.3)).astype(
            "f4"
        )
        place = (stream.normal(size=(len(presence), 3)) * (presence > 0)[:, None]).astype("f4")
        items.append(Shown(f"s{i}", grid, presence, place))
    cloud = stream.normal(size=(dots, 3)).astype("f4")
    outcomes = (Outcome("density", 0.25, "share"), unknown("r", "1", "not computed"))
    return BlockCard(block, 3, outcomes, tuple(items), cloud)


def record() -> RunRecord:
    fvu = Outcome("fvu", 0.2, "share", 0.1, 0.3, better="lower", n=7, n_unit="pictures", provenance={"seed": 0})
    return RunRecord(
        title="Title",
        kind="featurizer",
        facts={"z": "last letter first", "a": "kept in order"},
        outcomes=(OutcomeGroup("Held out", (fvu, unknown("dead", "share", "no rows")), "note"),),
        comparisons=(Comparison("t", ("what", "fvu"), (("trained", fvu), ("random", "none"))),),
        curves=(Curve("loss", [0, 1, 2], [1.0, 0.5, 0.25], log_y=True, better="lower"),),
        histograms=(Histogram("density", [-2.0, -1.0, 0.0], [3, 4], log10=True, aside={"never": 2}),),
        cards=(card(4, (3, 5), 2, 6), card(9, (1, 7), 1, 0), card(2, (2, 2), 0, 3)),
        samples={"s0": SampleView("thumbnails/0.jpg", label="zero"), "s1": SampleView(tokens=("a", " b"))},
        notes=("one", "two"),
        scatters=(Scatter("s", ("fvu", "k"), (point(fvu), ScatterPoint("b", "", (fvu, fvu))), "k", "fvu", "note"),),
    )


def point(fvu: Outcome) -> ScatterPoint:
    return ScatterPoint("a", "k 4", (fvu, unknown("k", "", "no")), "along k", ((0.1, 0.2), (4.0, 4.0)))


def same_cards(left: tuple[BlockCard, ...], right: tuple[BlockCard, ...]) -> None:
    assert [c.block for c in left] == [c.block for c in right]
    for a, b in zip(left, right, strict=True):
        assert (a.block_size, a.outcomes) == (b.block_size, b.outcomes)
        np.testing.assert_array_equal(a.cloud, b.cloud)
        assert [(s.sample, s.grid) for s in a.shown] == [(s.sample, s.grid) for s in b.shown]
        for s, t in zip(a.shown, b.shown, strict=True):
            np.testing.assert_array_equal(s.presence, t.presence)
            np.testing.assert_array_equal(s.place, t.place)


def test_everything_comes_back(tmp_path: Path):
    before = record()
    (tmp_path / "log.jsonl").write_text("kept")
    after = RunRecord.load(before.save(tmp_path))
    for name in ("title", "kind", "outcomes", "comparisons", "curves", "histograms", "samples", "notes", "scatters"):
        assert getattr(after, name) == getattr(before, name), name
    assert list(after.facts.items()) == list(before.facts.items())
    same_cards(before.cards, after.cards)
    assert (tmp_path / "log.jsonl").read_text() == "kept"


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(0, 3), st.integers(0, 5)), max_size=4))
def test_ragged_cards_come_back(tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int, int]]):
    cards = tuple(card(i, (h, w), n, m) for i, (h, w, n, m) in enumerate(shapes))
    folder = RunRecord("t", "k", cards=cards).save(tmp_path_factory.mktemp("record"))
    same_cards(cards, RunRecord.load(folder).cards)


def test_numbers_that_are_not_finite_become_unknown(tmp_path: Path):
    bad = OutcomeGroup("g", (Outcome("fvu", math.nan, "share", note="diverged"),))
    curve = Curve("loss", [0.0, 1.0], [1.0, math.inf])
    after = RunRecord.load(RunRecord("t", "k", outcomes=(bad,), curves=(curve,)).save(tmp_path))
    assert after.outcomes[0].outcomes[0].value is None
    assert after.outcomes[0].outcomes[0].note == "diverged"
    assert after.curves[0].y[0] == 1.0
    assert math.isnan(after.curves[0].y[1])


def refused(folder: Path, word: str) -> None:
    with pytest.raises(UserError, match=word) as error:
        RunRecord.load(folder)
    assert "\n" not in str(error.value)


def edit(folder: Path, **fields: object) -> None:
    plain = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(plain | fields))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"version": 99}, "version 1"),
        ({"format": "something"}, "record"),
        ({"title": 3}, "title"),
        ({"title": True}, "title"),
        ({"outcomes": [{"heading": "x"}]}, "outcomes"),
        (
            {"outcomes": [{"heading": "x", "note": "", "outcomes": [{"name": "a", "value": "1", "unit": ""}]}]},
            "outcome",
        ),
        ({"curves": [{"name": "x", "x": [1], "y": [], "surprise": 1}]}, "Curve"),
        ({"samples": {"s0": {"picture": "../secret.png", "tokens": [], "label": ""}}}, "picture"),
        ({"samples": {"s0": {"picture": "/etc/x.png", "tokens": [], "label": ""}}}, "picture"),
        ({"cards": []}, "card entries"),
        ({"cards_sha256": "0"}, "cards.safetensors"),
    ],
)
def test_edited_record_is_refused(tmp_path: Path, fields: dict[str, object], word: str):
    record().save(tmp_path)
    edit(tmp_path, **fields)
    refused(tmp_path, word)


def test_damaged_files_are_refused(tmp_path: Path):
    refused(tmp_path, "record.json")
    record().save(tmp_path)
    other = RunRecord("t", "k", cards=(card(1, (2, 2), 1, 1),)).save(tmp_path / "other")
    (tmp_path / "cards.safetensors").write_bytes((other / "cards.safetensors").read_bytes())
    refused(tmp_path, "cards.safetensors")
    (tmp_path / "record.json").write_text("{")
    refused(tmp_path, "valid JSON")


def test_card_pointing_outside_its_grid_is_refused(tmp_path: Path):
    from monoseme.core.files import sha256, write_tensors

    record().save(tmp_path)
    plain = json.loads((tmp_path / "record.json").read_text())
    n, m = sum(s["active"] for c in plain["cards"] for s in c["shown"]), sum(c["cloud"] for c in plain["cards"])
    path = tmp_path / "cards.safetensors"
    far = torch.full((n,), 10_000, dtype=torch.int32)
    write_tensors(path, {"token": far, "presence": torch.ones(n), "place": torch.ones(n, 3), "cloud": torch.ones(m, 3)})
    edit(tmp_path, cards_sha256=sha256(path))
    refused(tmp_path, "grid")


@pytest.mark.parametrize("grid", [["a", 2], [2], [-2, -2], 4])
def test_a_grid_that_is_none_is_refused(tmp_path: Path, grid: object):
    record().save(tmp_path)
    cards = json.loads((tmp_path / "record.json").read_text())["cards"]
    next(card for card in cards if card["shown"])["shown"][0]["grid"] = grid
    edit(tmp_path, cards=cards)
    refused(tmp_path, "grid")


@pytest.mark.parametrize("path", ["", "/a.png", "../a.png", "a/../../b.png", "c:\\a.png", "http://x/a.png", "a\0.png"])
def test_paths_that_leave_the_folder_are_refused(path: str):
    with pytest.raises(UserError, match="picture must be a relative path"):
        relative_path("picture", path)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="y must have one value for every x"):
        Curve("loss", [1.0], [])
    with pytest.raises(UserError, match="edges must be one more than counts"):
        Histogram("h", [1.0], [3])
    with pytest.raises(UserError, match="rows must have 2 cells"):
        Comparison("t", ("a", "b"), (("x",),))


def test_a_scatter_that_does_not_fit_its_columns_is_refused():
    fvu = Outcome("fvu", 0.2, "1")
    with pytest.raises(UserError, match=r"^x must be one of the columns; got 'fv'. Did you mean fvu"):
        Scatter("t", ("fvu", "k"), (), "fv", "k")
    with pytest.raises(UserError, match=r"^points must have 2 values, one a column"):
        Scatter("t", ("fvu", "k"), (ScatterPoint("a", "", (fvu,)),), "fvu", "k")
    with pytest.raises(UserError, match=r"^points must .*got 2 values and 1 columns of seeds"):
        Scatter("t", ("fvu", "k"), (ScatterPoint("a", "", (fvu, fvu), "", ((1.0,),)),), "fvu", "k")


def test_a_record_from_before_there_were_scatters_is_read(tmp_path: Path):
    record().save(tmp_path)
    plain = json.loads((tmp_path / "record.json").read_text())
    del plain["scatters"]
    (tmp_path / "record.json").write_text(json.dumps(plain))
    assert RunRecord.load(tmp_path).scatters == ()


@pytest.mark.parametrize("seeds", [[["a"]], [[True]], 3, [3]])
def test_a_scatter_edited_by_hand_is_refused(tmp_path: Path, seeds: object):
    record().save(tmp_path)
    scatters = json.loads((tmp_path / "record.json").read_text())["scatters"]
    scatters[0]["points"][0]["seeds"] = seeds
    edit(tmp_path, scatters=scatters)
    refused(tmp_path, "seeds")
