"""Rounds kept in a folder: stopped and gone on with, to the bit; thresholds that move; options that are none."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from tests.composition.test_pruning import NETS, X, image, mlp
from torch import nn

from monoseme.composition.pruning import prune
from monoseme.core.files import only_writer


class Killed(Exception):
    pass


def disturb(module: nn.Module) -> None:
    """Something like training: depends on the weights, so on everything before."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01 * torch.sin(40 * parameter))


def stops_in(number: int) -> Any:
    calls = []

    def retrain(module: nn.Module) -> None:
        calls.append(1)
        if len(calls) == number:
            raise Killed
        disturb(module)

    return retrain


@pytest.mark.parametrize("method", ["similarity", "magnitude", "random-neurons"])
@pytest.mark.parametrize("net", NETS)
def test_a_stopped_run_goes_on_to_the_same_bits(method: str, net: str, tmp_path: Path) -> None:
    make, data = NETS[net]
    whole = prune(make(), data, method, to=0.6, rounds=4, retrain=disturb, seed=1)
    for number in (1, 3):
        out = tmp_path / str(number)
        with pytest.raises(Killed):
            prune(make(), data, method, to=0.6, rounds=4, retrain=stops_in(number), seed=1, out=out)
        again = prune(make(), data, method, to=0.6, rounds=4, retrain=disturb, seed=1, out=out)
        assert again.rounds == whole.rounds
        for one, other in zip(again.module.parameters(), whole.module.parameters(), strict=True):
            assert torch.equal(one, other)
        for one, other in zip(again.layers, whole.layers, strict=True):
            assert torch.equal(one.mask, other.mask)
    never = stops_in(1)  # a finished run is read, and nothing is trained
    assert (
        prune(make(), data, method, to=0.6, rounds=4, retrain=never, seed=1, out=tmp_path / "3").rounds == whole.rounds
    )


def test_a_bound_ends_a_run_that_is_read_too(tmp_path: Path) -> None:
    losses = iter([0.1, 0.2, 0.3, 0.9, 0.9, 0.9])
    whole = prune(mlp(), X, "magnitude", to=0.8, rounds=5, loss=lambda m: next(losses), bound=0.25, out=tmp_path)
    assert len(whole.rounds) == 3
    read = prune(mlp(), X, "magnitude", to=0.8, rounds=5, loss=lambda m: 1 / 0, bound=0.25, out=tmp_path)
    assert read.rounds == whole.rounds


CHILD = """
import sys, time
from tests.composition.test_pruning_kept import disturb, mlp, X
from monoseme.composition.pruning import prune
def slow(module):
    disturb(module)
    print("round", flush=True)
    time.sleep(0.2)
prune(mlp(), X, "similarity", to=0.7, rounds=30, retrain=slow, seed=1, out=sys.argv[1])
"""


def test_kill_9(tmp_path: Path) -> None:
    whole = prune(mlp(), X, "similarity", to=0.7, rounds=30, retrain=disturb, seed=1)
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline() == "round\n"
    time.sleep(0.05)
    child.kill()
    child.wait()
    child.stdout.close()
    seen = []
    again = prune(
        mlp(), X, "similarity", to=0.7, rounds=30, retrain=lambda m: (disturb(m), seen.append(1)), seed=1, out=tmp_path
    )
    assert again.rounds == whole.rounds
    assert len(seen) < len(whole.rounds)
    for one, other in zip(again.module.parameters(), whole.module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_other_runs_are_refused(tmp_path: Path) -> None:
    prune(mlp(), X, "magnitude", to=0.3, out=tmp_path)
    check_refused(lambda: prune(mlp(), X, "magnitude", to=0.4, out=tmp_path), "to = 0.3")
    other = mlp()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    check_refused(lambda: prune(other, X, "magnitude", to=0.3, out=tmp_path), "start")
    with only_writer(tmp_path):
        check_refused(lambda: prune(mlp(), X, "magnitude", to=0.3, out=tmp_path), "another process")


def test_a_threshold_moves_and_pairs_are_counted() -> None:
    found = prune(image(), 12, to=0.9, rounds=3, threshold=0.9, threshold_last=0.1)
    lows = [min((value for *_, value in one.victims), default=1.0) for one in found.rounds]
    for low, threshold in zip(lows, (0.9, 0.5, 0.1), strict=True):
        assert low > threshold
    few = prune(image(), 12, to=0.9, rounds=3, pairs=2)
    assert [len(one.victims) for one in few.rounds] == [2, 2, 2]


def test_unknown_options_are_refused() -> None:
    check_refused(lambda: prune(image(), 12, threshhold=0.5), "threshhold")
    check_refused(lambda: prune(image(), 12, "magnitude", threshold=0.5), "threshold")
