"""The sweep engine: nothing is repeated, nothing is lost, and any number of processes give one and the same table."""

import csv
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sweep_toy
from sweep_toy import POINTS, SEEDS, STEPS, fussy, marks, slow_square, square

from monoseme.core.errors import UserError
from monoseme.core.files import only_writer
from monoseme.core.outcome import Outcome
from monoseme.learning import SweepInterrupted, SweepProgress, SweepResult, Trial, grid, process_pool, sweep
from monoseme.learning.points import trials_of

TABLES = ("trials.csv", "points.csv", "sweep.json")
XS = grid(x=[1, 2, 3])


def folders(out: Path) -> list[Path]:
    return sorted(path for path in (out / "trials").iterdir() if path.is_dir())


def tables(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in TABLES]


def program(out: Path, workers: int = 0, pause: float = 0.0) -> subprocess.Popen[bytes]:
    command = [sys.executable, sweep_toy.__file__, str(out), str(workers), str(pause)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def wait_for(true, process: subprocess.Popen[bytes]) -> None:
    while not true():
        assert process.poll() is None
        time.sleep(0.005)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep of twelve fits, run through in this process."""
    out = tmp_path_factory.mktemp("straight")
    sweep(sweep_toy.fit, POINTS, out, seeds=SEEDS)
    return out


def check_nothing_repeated(out: Path, finished: dict[Path, list[str]], straight: Path, at_once: int) -> None:
    """Finished fits were not called again; a fit cut short went on from its checkpoint; the tables are the same."""
    begun = {folder: marks(folder) for folder in folders(out)}
    assert {folder: begun[folder] for folder in finished} == finished
    again = [words for words in begun.values() if words.count("begin") > 1]
    assert len(again) <= at_once
    for words in begun.values():
        steps = [int(word[4:]) for word in words if word.startswith("step")]
        assert set(steps) == set(range(1, STEPS + 1))
        # the steps since the last checkpoint are all that may have been taken twice
        assert len(steps) - STEPS < sweep_toy.EVERY * words.count("begin")
    assert tables(out) == tables(straight)


def test_a_killed_sweep_of_twelve_fits_repeats_nothing(tmp_path: Path, straight: Path):
    process = program(tmp_path, pause=0.01)
    wait_for(lambda: len(list(tmp_path.glob("trials/*/done.json"))) >= 3, process)
    time.sleep(random.Random(time.time_ns()).uniform(0, 0.2))  # a moment nobody chose
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.communicate()
    finished = {path.parent: marks(path.parent) for path in tmp_path.glob("trials/*/done.json")}
    assert 3 <= len(finished) < 12
    result = sweep(sweep_toy.fit, POINTS, tmp_path, seeds=SEEDS)
    assert len(result.rows) == 12
    check_nothing_repeated(tmp_path, finished, straight, at_once=1)


def test_an_interrupted_pool_stops_at_once_and_goes_on(tmp_path: Path, straight: Path):
    process = program(tmp_path, workers=1, pause=0.05)
    wait_for(lambda: len(list(tmp_path.glob("trials/*/done.json"))) >= 2, process)
    process.send_signal(signal.SIGINT)  # to the parent alone, as a cluster does
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 128 + signal.SIGINT, said
    assert b"Traceback" not in said
    finished = {path.parent: marks(path.parent) for path in tmp_path.glob("trials/*/done.json")}
    assert 2 <= len(finished) < 8  # the rest was not waited for
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert sum("not run" in line for line in lines) == 12 - len(finished)
    sweep(sweep_toy.fit, POINTS, tmp_path, seeds=SEEDS)
    check_nothing_repeated(tmp_path, finished, straight, at_once=12)


def test_two_processes_equal_one(tmp_path: Path, straight: Path):
    both = [program(tmp_path, pause=0.01) for _ in range(2)]
    assert [process.communicate()[1] for process in both] == [b"", b""]
    assert [process.returncode for process in both] == [0, 0]
    assert len(folders(tmp_path)) == 12
    assert all(marks(folder).count("begin") == 1 for folder in folders(tmp_path))
    assert tables(tmp_path) == tables(straight)


def test_a_trial_that_another_process_lets_go_is_taken_over(tmp_path: Path):
    name = Trial({"x": 2}, 0).name
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with only_writer(tmp_path / "trials" / name):
            held.set()
            go.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(10)
    seen: list[SweepProgress] = []

    def tell(p: SweepProgress) -> None:
        seen.append(p)
        if p.finished == 2:
            go.set()  # the other process dies

    result = sweep(square, XS, tmp_path, progress=tell)
    other.join()
    assert [p.trial.settings["x"] for p in seen] == [1, 3, 2]
    assert [row.status for row in result.rows] == ["done"] * 3


class ClusterJob:
    """A future as submitit's: `done`, `result`, `cancel`, and nothing else."""

    def __init__(self, future: Future) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> object:
        return self._future.result()

    def cancel(self) -> None:
        self._future.cancel()


class Cluster:
    """A stand-in for a cluster's executor. It loses the first job handed to it."""

    def __init__(self, pool: ThreadPoolExecutor, lose: bool = False) -> None:
        self.pool, self.lose = pool, lose

    def submit(self, fn, /, *args) -> ClusterJob:
        if self.lose:
            self.lose = False
            future: Future = Future()
            future.set_exception(RuntimeError("job 17 timed out"))
            return ClusterJob(future)
        return ClusterJob(self.pool.submit(fn, *args))


def test_every_executor_gives_the_table_of_none(tmp_path: Path):
    sweep(slow_square, XS, tmp_path / "none", seeds=(0, 1, 2))
    with ThreadPoolExecutor(4) as pool:
        sweep(slow_square, XS, tmp_path / "threads", executor=pool, seeds=(0, 1, 2))
        sweep(slow_square, XS, tmp_path / "cluster", executor=Cluster(pool), seeds=(0, 1, 2))
    with process_pool(1) as pool:
        sweep(slow_square, XS, tmp_path / "processes", executor=pool, seeds=(0, 1, 2))
        assert sweep(slow_square, XS, tmp_path / "processes", executor=pool, seeds=(0, 1, 2)).failures == ()
    for kind in ("threads", "cluster", "processes"):
        assert tables(tmp_path / kind) == tables(tmp_path / "none")
        assert all(marks(folder) == ["begin"] for folder in folders(tmp_path / kind))


def test_the_recipes_of_the_documentation_run_on_stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text(encoding="utf-8")
    (recipe,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import ray" in block)
    names: dict[str, Any] = {}
    exec(recipe, names)

    class AutoExecutor(Cluster):
        def __init__(self, folder: str) -> None:
            super().__init__(pool)

        def update_parameters(self, **_: object) -> None:
            pass

    def remote(fn):  # ray.remote(fn).remote(*args).future()
        def begin(*args: object) -> SimpleNamespace:
            return SimpleNamespace(future=lambda: pool.submit(fn, *args))

        return SimpleNamespace(remote=begin)

    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=AutoExecutor))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(remote=remote))
    with ThreadPoolExecutor(2) as pool:
        for name, executor in (("slurm", names["on_slurm"]("logs")), ("ray", names["OnRay"]())):
            assert [r.status for r in sweep(square, XS, tmp_path / name, executor=executor).rows] == ["done"] * 3


def test_a_job_that_a_cluster_loses_is_a_failed_trial(tmp_path: Path):
    with ThreadPoolExecutor(1) as pool:
        first = sweep(square, XS, tmp_path, executor=Cluster(pool, lose=True))
        assert [row.error for row in first.rows] == ["RuntimeError: job 17 timed out", "", ""]
        assert sweep(square, XS, tmp_path, executor=Cluster(pool)).failures == ()


def test_workers_that_die_are_one_line(tmp_path: Path):
    with process_pool(1) as pool, pytest.raises(UserError, match=r"^executor must keep its workers alive") as error:
        sweep(sweep_toy.die, XS, tmp_path, executor=pool)
    assert "\n" not in str(error.value)


def test_a_failing_trial_leaves_the_others_alone_and_is_tried_again(tmp_path: Path):
    result = sweep(fussy, XS, tmp_path)
    assert [row.status for row in result.rows] == ["done", "failed", "done"]
    (failed,) = result.failures
    assert failed.error == "RuntimeError: two is odd"
    folder = tmp_path / "trials" / failed.trial.name
    assert "raise RuntimeError" in (folder / "traceback.txt").read_text()
    assert (tmp_path / "trials.csv").read_text().splitlines()[2] == "2,0,failed,,RuntimeError: two is odd"

    assert len(sweep(fussy, XS, tmp_path).failures) == 1
    (folder / "work" / "fixed").touch()
    assert sweep(fussy, XS, tmp_path).failures == ()
    assert [len(marks(f)) for f in folders(tmp_path)] == [1, 3, 1]
    assert not (folder / "failed.json").exists()
    assert not (folder / "traceback.txt").exists()


@pytest.mark.parametrize(
    ("returned", "rule"),
    [
        (3, "fn must return a mapping"),
        ({"y": [1]}, "fn must return outcomes, numbers and texts"),
        ({"y": None}, "fn must return outcomes, numbers and texts"),
        ({"x": 1.0}, "fn must return names that are no setting's"),
        ({"y": Outcome("y", 1.0, "1"), "y_low": 0.5}, "fn must return names that are no setting's"),
        ({"y": Outcome("y", 1.0, "1", provenance={"a": object()})}, "TypeError"),
    ],
)
def test_what_is_no_number_is_a_failure_of_its_trial(tmp_path: Path, returned: object, rule: str):
    result = sweep(lambda point, folder: returned, [{"x": 1}], tmp_path)  # pyright: ignore[reportArgumentType]
    assert rule in result.rows[0].error
    assert "\n" not in result.rows[0].error


def test_a_number_that_is_not_finite_is_unknown_and_says_so(tmp_path: Path):
    result = sweep(lambda point, folder: {"y": np.float32("nan"), "n": np.int64(3)}, [{"x": 1}], tmp_path)
    numbers = result.rows[0].numbers
    assert numbers == {"y": Outcome("y", None, "1", note="the function gave nan"), "n": 3}


def test_a_grid_may_grow(tmp_path: Path):
    sweep(square, XS, tmp_path)
    more = sweep(square, grid(x=[3, 4, 1, 2]), tmp_path, seeds=(1, 0))
    assert [(row.trial.settings["x"], row.trial.seed) for row in more.rows][:4] == [(3, 1), (3, 0), (4, 1), (4, 0)]
    assert {len(marks(folder)) for folder in folders(tmp_path)} == {1}


def test_the_order_of_settings_makes_no_other_trial():
    one, other = Trial({"a": 1, "b": [2.5, None]}, 0), Trial({"b": [2.5, None], "a": 1}, 0)
    assert one.name == other.name
    assert len({Trial({"a": value}, 0).name for value in (1, 1.0, True, "1", [1])}) == 5


def refused(match: str, *args, **kwargs) -> None:
    with pytest.raises(UserError, match=match) as error:
        sweep(*args, **kwargs)
    assert "\n" not in str(error.value)


def test_another_function_version_or_trial_is_refused_and_named(tmp_path: Path):
    sweep(square, XS, tmp_path, about={"version": 1, "data": "a"})
    refused("function = square where this sweep has fussy", fussy, XS, tmp_path, about={"version": 1, "data": "a"})
    refused("about.version = 1 where this sweep has 2", square, XS, tmp_path, about={"version": 2, "data": "a"})
    refused("about.data = a where this sweep has nothing", square, XS, tmp_path, about={"version": 1})
    one = tmp_path / "trials" / Trial({"x": 1}, 0).name
    one.rename(one.with_name(Trial({"x": 9}, 0).name))
    refused("point.x = 1 where this sweep has 9", square, [{"x": 9}], tmp_path, about={"version": 1, "data": "a"})
    fresh = sweep(fussy, XS, tmp_path, resume=False)
    assert [len(marks(tmp_path / "trials" / row.trial.name)) for row in fresh.rows] == [1, 1, 1]


def test_starting_over_does_not_disturb_another_process(tmp_path: Path):
    sweep(square, XS, tmp_path)
    with only_writer(tmp_path / "trials" / Trial({"x": 1}, 0).name):
        refused("out must not be in use", square, XS, tmp_path, resume=False)
    assert len(list(tmp_path.glob("trials/*/done.json"))) == 3


@pytest.mark.parametrize(
    ("points", "seeds", "match"),
    [
        ([], (0,), "^points must hold at least one point"),
        ([{"x": float("nan")}], (0,), "^points must hold plain values.*nan for x"),
        ([{"x": Path("a")}], (0,), "^points must hold plain values.*for x"),
        ([{"x": b"a"}], (0,), "^points must hold plain values"),
        ([{"seed": 1}], (0,), "^points must leave the seed to seeds="),
        ([{"x": 1}, {"x": 1}], (0,), "^points and seeds must differ"),
        ([{"x": 1}], (0, 0), "^points and seeds must differ"),
        ([{"x": 1}], (), "^seeds must be whole numbers"),
        ([{"x": 1}], (True,), "^seeds must be whole numbers"),
    ],
)
def test_bad_points_and_seeds_are_one_line(tmp_path: Path, points, seeds, match: str):
    refused(match, square, points, tmp_path, seeds=seeds)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("points", "seeds", "match"),
    [
        ([{1: 2}], (0,), "^points must be mappings"),
        (["x"], (0,), "^points must be mappings"),
        ([{"x": 1}], (0.5,), "^seeds must be whole numbers"),
    ],
)
def test_points_of_another_type_are_one_line(points, seeds, match: str):
    with pytest.raises(UserError, match=match) as error:
        trials_of(points, seeds)
    assert "\n" not in str(error.value)


def test_other_bad_arguments_are_one_line(tmp_path: Path):
    with process_pool(1) as pool:
        refused("^fn must be importable by worker processes", lambda p, f: {}, XS, tmp_path, executor=pool)
    with pytest.raises(UserError, match=r"^workers must be a positive whole number"):
        process_pool(0)
    with pytest.raises(UserError, match=r"^x must be a list of values"):
        grid(x="abc")
    with pytest.raises(UserError, match=r"^x must list at least one value"):
        grid(x=[])


ODD = ["a/../b", "..", "", "é😀", "\0", "x\ny", "\ud800", "con", "a" * 500, 'q"u,o', "=1+1", -0.0, 1e300, 10**30]


def test_values_with_odd_characters_become_folders_and_come_back(tmp_path: Path):
    points = [{"value, 'odd'\n": value, "list": [value, None, True]} for value in ODD]
    result = sweep(lambda point, folder: {"got": repr(point["list"][0])}, points, tmp_path)
    assert [row.numbers["got"] for row in result.rows] == [repr(value) for value in ODD]
    names = [folder.name for folder in folders(tmp_path)]
    assert len(names) == len(ODD)
    assert all(name.isascii() and name.isprintable() and "/" not in name and len(name) < 100 for name in names)
    assert not any(name.startswith(".") for name in names)
    again = SweepResult.load(tmp_path)
    assert [dict(row.trial.settings) for row in again.rows] == points
    assert len(sweep(lambda point, folder: {}, points, tmp_path).rows) == len(ODD)


def test_json_and_csv_come_back(tmp_path: Path):
    result = sweep(square, grid(x=[0.1, 2, 3], word=["a,b", "c"]), tmp_path, seeds=(0, 1))
    again = SweepResult.load(tmp_path)
    assert again.rows == result.rows
    assert again.points == result.points
    assert [type(row.trial.settings["x"]) for row in again.rows[::4]] == [float, int, int]
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["x", "word", "seed", "status", "square", "square_low", "square_high", "twice", "error"]
    for line, row in zip(lines, result.rows, strict=True):
        square_ = row.numbers["square"]
        assert isinstance(square_, Outcome)
        parts = [float(line[name]) for name in ("square", "square_low", "square_high")]
        assert parts == [square_.value, square_.low, square_.high]
        assert (json.loads(line["x"]), line["word"]) == (row.trial.settings["x"], row.trial.settings["word"])
    plain = json.loads((tmp_path / "sweep.json").read_text())
    assert plain["numbers"][0] == {"name": "square", "unit": "m2", "better": "lower"}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "monoseme.sweep", "version": 9}', "{}"])
def test_a_damaged_table_is_one_line(tmp_path: Path, text: str):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(UserError, match=r"sweep\.json") as error:
        SweepResult.load(tmp_path)
    assert "\n" not in str(error.value)


def test_points_are_means_over_seeds_with_an_interval_and_one_seed_has_none(tmp_path: Path):
    from scipy.stats import ttest_1samp

    result = sweep(square, XS, tmp_path, seeds=(0, 1, 5))
    values = [1.0, 1.1, 1.5]
    outcome = result.points[0].numbers["square"]
    assert isinstance(outcome, Outcome)
    interval = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (outcome.value, outcome.low, outcome.high) == pytest.approx((1.2, interval.low, interval.high))
    assert (outcome.n, outcome.n_unit, outcome.unit, outcome.better) == (3, "seeds", "m2", "lower")
    error = np.std(values, ddof=1) / np.sqrt(3)
    assert f"standard error {error:.3g}" in outcome.note
    alone = sweep(square, XS, tmp_path / "one").points[0].numbers["square"]
    assert isinstance(alone, Outcome)
    assert (alone.value, alone.low, alone.high, alone.note) == (1.0, None, None, "one seed: no interval over seeds")


def test_seeds_without_a_value_are_counted(tmp_path: Path):
    def sometimes(point, folder):
        if point["seed"] == 2:
            raise ValueError("no")
        return {"y": 1.0 + point["seed"], "word": "same", "other": str(point["seed"])}

    (point,) = sweep(sometimes, [{}], tmp_path, seeds=(0, 1, 2)).points
    outcome = point.numbers["y"]
    assert isinstance(outcome, Outcome)
    assert (outcome.value, outcome.n) == (1.5, 2)
    assert outcome.note.endswith("1 of 3 seeds have no value")
    assert point.numbers["word"] == "same"
    assert "other" not in point.numbers


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_plain_function_stops_it_and_the_table_so_far_is_there(tmp_path: Path, signum: int):
    def stubborn(point, folder):
        if point["x"] == 2 and not (folder / "again").exists():
            (folder / "again").touch()
            signal.raise_signal(signum)
            raise AssertionError("it went on")
        return {"y": 1}

    before = signal.getsignal(signum)
    with pytest.raises(SweepInterrupted) as stop:
        sweep(stubborn, XS, tmp_path)
    assert (stop.value.code, stop.value.step, stop.value.total) == (128 + signum, 1, 3)
    assert "1 of 3 trials" in str(stop.value)
    assert signal.getsignal(signum) is before
    assert [row.status for row in SweepResult.load(tmp_path).rows] == ["done", "not run", "not run"]
    assert [row.status for row in sweep(stubborn, XS, tmp_path).rows] == ["done"] * 3
