"""Runs that are stopped: by a signal, a kill, a full disk, another run."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import learning_toy
import pytest
import torch
from learning_toy import CONFIG, SignalAt, Toy, assert_same_run, assert_tidy, checkpoint_of, long_config, toy_rows

import monoseme
from monoseme.core import files
from monoseme.core.errors import UserError
from monoseme.core.files import only_writer
from monoseme.learning import Interrupted, train


def start_slow_run(out: Path, optimiser: str) -> subprocess.Popen[bytes]:
    """A run in another process, returned when its first checkpoint is there."""
    env = os.environ | {
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "PYTHONPATH": str(Path(monoseme.__file__).parents[1]),
    }
    child = subprocess.Popen([sys.executable, str(learning_toy.__file__), str(out), optimiser], env=env)
    until = time.monotonic() + 60
    while not (out / "checkpoint").exists():
        assert child.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    return child


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_straight_equals_killed_at_a_random_moment_and_resumed(tmp_path, optimiser) -> None:
    train(Toy(), toy_rows(), config=long_config(optimiser), out=tmp_path / "straight")
    child = start_slow_run(tmp_path / "killed", optimiser)
    time.sleep(random.uniform(0.0, 0.6))
    child.kill()
    assert child.wait() == -signal.SIGKILL

    toy = Toy(seed=5)  # nothing of the object at hand may matter
    history = train(toy, toy_rows(), config=long_config(optimiser), out=tmp_path / "killed")
    assert toy.begun == 0
    assert history.steps == 200
    assert_same_run(tmp_path / "killed", tmp_path / "straight")
    assert_tidy(tmp_path / "killed")


def test_terminated_process_exits_with_143_and_a_checkpoint(tmp_path) -> None:
    child = start_slow_run(tmp_path / "stopped", "adam")
    child.terminate()
    assert child.wait() == 128 + signal.SIGTERM
    assert_tidy(tmp_path / "stopped")
    assert 7 <= checkpoint_of(tmp_path / "stopped").step < 200
    train(Toy(), toy_rows(), config=long_config("adam"), out=tmp_path / "stopped")
    train(Toy(), toy_rows(), config=long_config("adam"), out=tmp_path / "straight")
    assert_same_run(tmp_path / "stopped", tmp_path / "straight")


@pytest.mark.parametrize("step", [0, 9, 13, 29])
def test_interrupt_finishes_the_step_and_goes_on_exactly(tmp_path, step) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as stopped:
        train(SignalAt(step, signal.SIGINT), toy_rows(), config=CONFIG, out=tmp_path / "out")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert (stopped.value.code, stopped.value.signum, stopped.value.step) == (130, signal.SIGINT, step + 1)
    assert stopped.value.checkpoint == tmp_path / "out" / "checkpoint"
    assert f"stopped after step {step + 1}; its checkpoint is {stopped.value.checkpoint}" in str(stopped.value)
    assert checkpoint_of(tmp_path / "out").step == step + 1
    assert_tidy(tmp_path / "out")

    train(Toy(), toy_rows(), config=CONFIG, out=tmp_path / "out")
    train(Toy(), toy_rows(), config=CONFIG, out=tmp_path / "straight")
    assert_same_run(tmp_path / "out", tmp_path / "straight")


def test_interrupt_without_a_folder_writes_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Interrupted) as stopped:
        train(SignalAt(3, signal.SIGTERM), toy_rows(), config=CONFIG)
    assert (stopped.value.code, stopped.value.step, stopped.value.checkpoint) == (143, 4, None)
    assert "nothing was kept" in str(stopped.value)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_previous_checkpoint(tmp_path, monkeypatch) -> None:
    calls, save_file = [], files.save_file

    def full(*arguments, **settings):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(*arguments, **settings)

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(OSError, match="out must lie on a disk with room left") as error:
        train(Toy(), toy_rows(), config=CONFIG, out=tmp_path / "out")
    assert "\n" not in str(error.value)
    assert checkpoint_of(tmp_path / "out").step == 10
    assert_tidy(tmp_path / "out")

    train(Toy(), toy_rows(), config=CONFIG, out=tmp_path / "out")
    train(Toy(), toy_rows(), config=CONFIG, out=tmp_path / "straight")
    assert_same_run(tmp_path / "out", tmp_path / "straight")


def test_too_small_a_disk_is_refused_before_the_first_step(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 0, 10))
    with pytest.raises(OSError, match="out must lie on a disk with"):
        train(Toy(), toy_rows(), config=CONFIG, out=tmp_path)


def test_a_second_run_in_the_same_folder_is_refused(tmp_path) -> None:
    with only_writer(tmp_path), pytest.raises(UserError, match=r"^out must not be in use by another run[^\n]*$"):
        train(Toy(), toy_rows(), config=CONFIG, out=tmp_path)
