"""What is on disk: found again, refused when it is not this run's, mended after a crash."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from learning_toy import Toy, toy_rows

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.learning import Schedule, TrainConfig, read_log, train, without_clock
from monoseme.learning.log import Log

CONFIG = TrainConfig(steps=20, batch_size=16, lr=0.01, log_every=4, checkpoint_every=6)


@pytest.fixture
def done(tmp_path) -> Path:
    train({"a/b": Toy(), "..": Toy(seed=1)}, toy_rows(), config=CONFIG, out=tmp_path, about={"k": 3})
    return tmp_path


def again(
    out: Path, *, config: TrainConfig = CONFIG, rows: ArrayRows | None = None, k: int = 3, width: int = 4, **more
):
    objects = {"a/b": Toy(seed=7, width=width), "..": Toy(seed=8)}
    return objects, train(objects, rows or toy_rows(), config=config, out=out, about={"k": k}, **more)


def test_a_finished_run_is_returned_as_it_is(done) -> None:
    stamp = (done / "checkpoint" / "checkpoint.json").stat().st_mtime_ns
    objects, histories = again(done)
    fresh = {"a/b": Toy(), "..": Toy(seed=1)}
    first = train(fresh, toy_rows(), config=CONFIG)
    for name, toy in objects.items():
        assert (toy.begun, toy.finished) == (0, 0)
        torch.testing.assert_close(toy.state(), fresh[name].state(), rtol=0, atol=0)
        assert without_clock(histories[name].lines) == without_clock(first[name].lines)
        assert histories[name].seconds > 0
    assert (done / "checkpoint" / "checkpoint.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"config": dataclasses.replace(CONFIG, lr=0.02)}, "config.lr = 0.01 where this run has 0.02"),
        ({"config": dataclasses.replace(CONFIG, steps=21)}, "config.steps = 20 where this run has 21"),
        ({"config": dataclasses.replace(CONFIG, schedule=Schedule(warmup=3))}, "config.schedule.warmup = 0"),
        ({"config": dataclasses.replace(CONFIG, weight_decay=0.1)}, "weight_decay = nothing where this run has 0.1"),
        ({"rows": ArrayRows(toy_rows().x + 1)}, "rows.first_batch = "),
        ({"rows": toy_rows(n=299)}, "rows.count = 300 where this run has 299"),
        ({"k": 4}, "about.k = 3 where this run has 4"),
        ({"width": 5}, "objects.a/b.counter = torch.int64 [4] where this run has torch.int64 [5]"),
    ],
)
def test_another_run_is_refused_and_the_difference_named(done, changed, named) -> None:
    with pytest.raises(UserError) as error:
        again(done, **changed)
    assert str(error.value).startswith("out must hold a checkpoint of this run, or none; got one with")
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_that_older_runs_did_not_know_are_named_only_where_used() -> None:
    """So that checkpoints written before there were any stay resumable."""
    assert "weight_decay" not in CONFIG.identity()
    assert "start" not in CONFIG.identity()["schedule"]
    used = dataclasses.replace(CONFIG, weight_decay=0.1, schedule=Schedule(warmup=3, start=0.1)).identity()
    assert (used["weight_decay"], used["schedule"]["start"]) == (0.1, 0.1)


def test_checkpoint_rhythm_may_change(done) -> None:
    again(done, config=dataclasses.replace(CONFIG, checkpoint_every=1))


def test_resume_false_starts_over(done) -> None:
    objects, histories = again(done, config=dataclasses.replace(CONFIG, steps=5), resume=False)
    assert objects["a/b"].begun == 1
    assert histories["a/b"].steps == 5
    assert [line["step"] for line in read_log(done / "log.jsonl")] == [1, 1, 4, 4, 5, 5]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_damaged_tensors_are_refused(done, damage) -> None:
    damage(done / "checkpoint" / "tensors.safetensors")
    with pytest.raises(UserError, match=r"^out must hold an undamaged checkpoint[^\n]*tensors\.safetensors[^\n]*$"):
        again(done)


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_damaged_description_is_refused(done, damage) -> None:
    damage(done / "checkpoint" / "checkpoint.json")
    with pytest.raises(UserError, match=r"^path must hold [^\n]*checkpoint\.json[^\n]*$"):
        again(done)


def test_another_version_is_refused(done) -> None:
    path = done / "checkpoint" / "checkpoint.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(UserError, match=r"^out must hold a monoseme\.checkpoint of version 1[^\n]*$"):
        again(done)


@pytest.mark.parametrize("key", ["run", "step", "finished", "seconds", "objects", "sha256"])
@pytest.mark.parametrize("value", [None, "x", [], {}])
def test_a_description_edited_by_hand_is_refused(done, key, value) -> None:
    path = done / "checkpoint" / "checkpoint.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {key: value}))
    with pytest.raises(UserError, match="must") as error:
        again(done)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("resume", [True, False])
def test_killed_between_the_two_renames(done, resume) -> None:
    (done / "checkpoint").rename(done / ".checkpoint.abc.old")
    (done / ".checkpoint.xyz.part").mkdir()
    objects, _ = again(done, resume=resume)
    assert objects["a/b"].begun == (0 if resume else 1)
    assert {path.name for path in done.iterdir()} == {".lock", "checkpoint", "log.jsonl"}


def test_log_drops_a_partial_line_and_what_comes_after_the_step(tmp_path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    assert read_log(path) == [{"step": 1}, {"step": 2}, {"step": 3}]
    log = Log(path, step=2)
    log.write({"step": 3, "loss": 0.5})
    log.close()
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3, "loss": 0.5}\n'
    assert log.lines == read_log(path)


def test_a_log_damaged_in_the_middle_is_refused(tmp_path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"^out must hold an undamaged log; got [^\n]*line 2[^\n]*$"):
        read_log(path)


def test_no_log_is_an_empty_log(tmp_path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []
