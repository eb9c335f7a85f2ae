"""`monoseme sweep FILE.toml`, and what stands behind it: the plan, the table, the page, and every mistake in a file."""

import csv
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call

import monoseme as ms
from monoseme.api import describe_sweep, points_of
from monoseme.core.outcome import Outcome
from monoseme.learning import SweepResult, read_log
from monoseme.records import RunRecord

PLAN = """
store = "STORE"
out = "sweep"
seeds = [0, 1]
title = "A toy, swept"

[fit]
steps = 6
batch_size = 64

[[featurizer]]
name = "TopK"
n_blocks = 8
k = [2, 4]
sign = ["nonneg", "free"]

[[featurizer]]
name = ["BlockTopK", "Grassmannian"]
n_blocks = 4
block_size = 2
k = [1, 2]
lr = 1e-2
"""


@pytest.fixture
def file(tmp_path: Path, store: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(PLAN.replace("STORE", str(store)), encoding="utf-8")
    return path


def test_a_file_becomes_a_table_and_a_page_and_nothing_is_done_twice(call: Call, file: Path) -> None:
    code, said, progress = call("sweep", file)
    assert code == 0, progress
    assert "16 of 16 fits" in progress
    out = file.parent / "sweep"
    table, about = said.split("sweep  ")
    assert len(table.splitlines()) == 1 + 8
    assert table.splitlines()[1].startswith("TopK, n_blocks 8, k 2, sign nonneg")
    page = (out / "pages/index.html").read_text(encoding="utf-8")
    assert f"page   {out / 'pages/index.html'}" in about
    assert "A toy, swept" in page
    with (out / "points.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["featurizer"] for row in rows] == ["TopK"] * 4 + ["BlockTopK"] * 2 + ["Grassmannian"] * 2
    assert {row["lr"] for row in rows if row["featurizer"] == "TopK"} == {""}
    assert all(float(row["fvu_low"]) <= float(row["fvu"]) <= float(row["fvu_high"]) for row in rows)
    made = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/done.json")}
    code, again, progress = call("sweep", file)
    assert (code, again, progress) == (0, said, "")
    assert {path: path.stat().st_mtime_ns for path in out.glob("trials/*/done.json")} == made


def test_it_measures_what_fit_and_evaluate_measure(call: Call, file: Path, store: Path) -> None:
    file.write_text(PLAN.replace("STORE", str(store)).replace("[fit]", 'split = "validation"\n[fit]'))
    assert call("sweep", file, "--out", file.parent / "other")[0] == 0
    row = SweepResult.load(file.parent / "other").rows[1]
    assert row.trial.point == {
        "featurizer": "TopK", "n_blocks": 8, "k": 2, "sign": "nonneg", "steps": 6, "batch_size": 64, "seed": 1,
    }  # fmt: skip
    held = ms.ActivationStore.open(store)
    featurizer = ms.featurizers.TopK(held.d_in, 8, k=2, seed=1)
    ms.fit(featurizer, held, steps=6, batch_size=64, seed=1)
    assert row.numbers == dict(ms.evaluate(featurizer, held, "validation"))
    run = file.parent / "other" / "trials" / row.trial.name / "work"
    assert ms.load(run).atoms.equal(featurizer.atoms)
    assert ms.page(run).exists()  # a fit of a sweep is a run like any other
    assert read_log(run / "log.jsonl")[-1]["step"] == 6


def test_two_workers_give_the_same(call: Call, file: Path) -> None:
    file.write_text(file.read_text().split("[[featurizer]]\nname = [")[0].replace("k = [2, 4]", "k = 2"))
    assert call("sweep", file)[0] == 0
    code, _, error = call("sweep", file, "--out", file.parent / "two", "--workers", "2")
    assert code == 0, error
    for name in ("trials.csv", "points.csv", "sweep.json"):
        assert (file.parent / "two" / name).read_bytes() == (file.parent / "sweep" / name).read_bytes()


def test_a_fit_that_fails_is_said_and_the_others_are_there(call: Call, file: Path) -> None:
    file.write_text(file.read_text().replace("k = [2, 4]", "k = 2\nbatch_size = [64, 9999]"))
    code, said, progress = call("sweep", file)
    assert code == 1
    assert "4 failed" in progress
    assert said.count("UserError: batch_size must lie in 1..") == 4
    page = (file.parent / "sweep/pages/index.html").read_text(encoding="utf-8")
    assert "Failed trials" in page
    assert "batch_size must lie in 1.." in page


def test_a_setting_of_numbers_and_words_is_drawn(tmp_path: Path) -> None:
    from monoseme.learning import sweep

    points = [{"featurizer": "a", "lr": lr} for lr in (0.2, "x", 0.1, None)]
    record = describe_sweep(sweep(lambda point, folder: {"fvu": 1.0}, points, tmp_path))
    assert [p.label for p in record.scatters[0].points] == ["lr 0.1", "lr 0.2", "lr x", "lr null"]


MISTAKES = {
    "not TOML": ("[fit", "FILE.toml must be valid TOML"),
    "unknown key": ("sead = 1\n", "sweep.toml: sead must be a key of a sweep; got an unknown one. Did you mean seeds"),
    "no store": (PLAN.replace("store =", "#"), "sweep.toml: store must be given"),
    "an empty store": (PLAN.replace("STORE", ""), "sweep.toml: store must be given"),
    "an empty folder": (PLAN.replace('"sweep"', '""'), "sweep.toml: out must be given"),
    "no featurizer": (PLAN.split("[[")[0], "sweep.toml: featurizer must be given"),
    "featurizer of another kind": (PLAN.split("[fit]")[0] + 'featurizer = ["TopK"]', "featurizer must be tables"),
    "seeds of another kind": (PLAN.replace("[0, 1]", "3"), "sweep.toml: seeds must be a list; got 3"),
    "seeds that are none": (PLAN.replace("[0, 1]", '["a"]'), "sweep.toml: seeds must be whole numbers; got ['a']"),
    "store that is not there": (PLAN.replace("STORE", "nowhere"), "nowhere"),
    "unknown split": (
        PLAN.replace("[fit]", 'split = "tests"\n[fit]'),
        "sweep.toml: split must be a split",
    ),
    "unknown featurizer": (PLAN.replace('"TopK"', '"TopKK"'), "'TopKK'. Did you mean TopK"),
    "no name": (PLAN.replace('name = "TopK"', ""), "sweep.toml: featurizers must each have a name"),
    "unknown argument": (PLAN.replace("sign =", "sing ="), "sing must be among the arguments of TopK; got a name"),
    "closest argument": (PLAN.replace("sign =", "sing ="), "Did you mean sign"),
    "argument of another": (PLAN.replace("sign =", "block_size ="), "block_size must be among the arguments of TopK"),
    "missing argument": (PLAN.replace("k = [2, 4]", ""), "sweep.toml: k must be given for TopK"),
    "unknown option": (PLAN.replace("steps", "stebs"), "stebs must be among the options of a fit"),
    "seed as a setting": (PLAN.replace("steps", "seed"), "seed must be left out of the options of a fit"),
    "width as a setting": (PLAN.replace("sign =", "d_in ="), "d_in must be left out of the arguments of TopK"),
    "empty list": (PLAN.replace("[2, 4]", "[]"), "k must list at least one value"),
    "no workers": (PLAN.replace("[fit]", "workers = 0\n[fit]"), "workers must be a positive whole number"),
    "k above blocks": (PLAN.replace("[2, 4]", "[2, 9]"), "k must be at most n_blocks = 8; got 9"),
    "a sign that is none": (PLAN.replace('"free"]', '"fre"]'), "; got 'fre'. "),
    "rate below zero": (PLAN.replace("lr = 1e-2", "lr = [1e-2, -1.0]"), "lr must be positive and finite; got -1.0"),
    "a date": (PLAN.replace("steps = 6", "aux = 1979-05-27"), "points must hold plain values"),
    "twice": (PLAN.replace("[2, 4]", "[2, 2]"), "points and seeds must differ"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_file_is_one_line(name: str, call: Call, file: Path, store: Path) -> None:
    text, expected = MISTAKES[name]
    file.write_text(text.replace("STORE", str(store)), encoding="utf-8")
    code, said, error = call("sweep", file)
    assert (code, said) == (2, "")
    assert error.count("\n") == 1
    assert expected in error
    assert not (file.parent / "sweep" / "trials").exists()


def test_a_file_that_is_not_there_is_one_line(call: Call) -> None:
    code, _, error = call("sweep", "nowhere.toml")
    assert code == 2
    assert error == "monoseme: No such file or directory: nowhere.toml\n"


def test_a_stopped_sweep_says_so(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    from monoseme.cli import sweep as verb

    def stopping(_: object):
        return lambda p: signal.raise_signal(signal.SIGINT) if p.finished == 3 else None

    monkeypatch.setattr(verb, "_tell", stopping)
    code, said, error = call("sweep", file)
    assert (code, said) == (130, "")
    assert error == "monoseme: stopped after 3 of 16 trials; the same command goes on with the rest\n"
    monkeypatch.undo()


def test_another_store_is_another_sweep(call: Call, file: Path, tmp_path: Path, pictures: Path) -> None:
    assert call("sweep", file)[0] == 0
    other = tmp_path / "other"
    assert call("harvest", "toy", pictures, "--at", "blocks.8", "--out", other, "--size", 84)[0] == 0
    file.write_text(PLAN.replace("STORE", str(other)))
    code, _, error = call("sweep", file)
    assert code == 2
    assert "out must hold trials of this sweep, or none; got one with about.store" in error
    assert call("sweep", file, "--restart")[0] == 0


def test_points_of_nothing_and_points_in_order() -> None:
    with pytest.raises(ms.UserError, match=r"^featurizers must hold at least one"):
        points_of([], {})
    points = points_of([{"name": "TopK", "n_blocks": 8, "k": (1, 2), "lr": 0.1}], {"lr": [1, 2], "steps": 5})
    assert points == [{"featurizer": "TopK", "n_blocks": 8, "k": k, "lr": 0.1, "steps": 5} for k in (1, 2)]


def measured(point, folder: Path) -> dict[str, Outcome | str]:
    value = Outcome("fvu", 1 / point["k"] + 0.01 * point["seed"], "1", better="lower")
    return {"fvu": value, "l0": Outcome("l0", float(point["k"]), "blocks/row"), "word": "w"}


def test_the_record_of_a_sweep(tmp_path: Path) -> None:
    from monoseme.learning import grid, sweep

    points = [*grid(featurizer=["a", "b"], k=[4, 2], lr=[0.1, 0.2], same=[1]), {"featurizer": "c", "k": 3, "same": 1}]
    record = describe_sweep(sweep(measured, points, tmp_path, seeds=(0, 1)), facts={"Store": "s"})
    (scatter,) = record.scatters
    assert (scatter.x, scatter.y) == ("l0", "fvu")
    assert scatter.columns == ("fvu", "l0", "k", "lr")
    assert [p.label for p in scatter.points[:4]] == [f"k {k}, lr {lr}" for k in (2, 4) for lr in (0.1, 0.2)]
    assert {p.strand for p in scatter.points if p.series == "a"} == {"along k: lr 0.1", "along k: lr 0.2"}
    assert scatter.points[0].seeds == ((0.5, 0.51), (2.0, 2.0), (2.0, 2.0), (0.1, 0.1))
    assert not scatter.points[-1].values[3].known
    assert record.facts["In all of them"] == "same 1"
    table = record.comparisons[0]
    assert table.columns == ("featurizer", "k", "lr", "fvu", "l0", "word")
    assert table.rows[-1][:3] == ("c", "3", "")
    assert RunRecord.load(record.save(tmp_path / "record")).scatters == record.scatters

    alone = describe_sweep(sweep(measured, points[:2], tmp_path))
    assert "One seed" in alone.comparisons[0].note
    assert any("another training seed" in note for note in alone.notes)
    assert alone.scatters[0].points[0].seeds == ()


def test_a_sweep_that_measured_nothing_still_has_a_page(tmp_path: Path) -> None:
    from monoseme.learning import sweep

    for i, points in enumerate(([{}], [{"x": 1}, {"x": 2}])):
        result = sweep(lambda point, folder: {}, points, tmp_path / str(i))
        assert "sweep" in ms.sweep_page(result, tmp_path / str(i)).read_text(encoding="utf-8")
    assert json.loads((tmp_path / "1" / "sweep.json").read_text())["numbers"] == []
