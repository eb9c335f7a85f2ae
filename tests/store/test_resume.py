"""A harvest killed at a random moment, again and again, ends in the bytes of one that ran through."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHILD = """
import sys, time
import torch
from torch import nn
from monoseme.models import HookedModel, ModelFacts
from monoseme.store import Sample, harvest
import monoseme.store.dealing as module
from monoseme.store import TokenPolicy
from tests.store.conftest import Bytes, TinyLM
import numpy as np

module.COMMIT_SECONDS = float(sys.argv[2])
torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 4, stride=4)
    def forward(self, x):
        time.sleep(float(sys.argv[3]))
        return self.conv(x)

class SlowLM(TinyLM):
    def forward(self, input_ids, attention_mask):
        time.sleep(float(sys.argv[3]))
        return super().forward(input_ids, attention_mask)

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(0)
    net = Net()
def preprocess(picture):
    return torch.from_numpy(picture.transpose(2, 0, 1).copy()).float() / 255
stream = np.random.default_rng(0)
pictures = [Sample(str(i), stream.integers(0, 256, (16, 20, 3), dtype=np.uint8)) for i in range(120)]
texts = ["ab " * int(n) for n in stream.integers(1, 8, 118)] + ["a long one " * 5]  # of two windows
print("ready", flush=True)
if sys.argv[4] == "pictures":
    model, data, at = HookedModel(net, ModelFacts("net", preprocess=preprocess)), pictures, "conv"
else:
    model, data, at = HookedModel(SlowLM(), ModelFacts("lm", tokenizer=Bytes())), texts, "block"
store = harvest(model, data, at, sys.argv[1], batch_size=3, shard_rows=200,
                tokens=TokenPolicy(context=40, max_norm=None if at == "conv" else 1.5))
print("done", flush=True)
"""


def start(out: Path, commit: float = 0.0, pause: float = 0.0, kind: str = "pictures") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(out), str(commit), str(pause), kind]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def finish(child: subprocess.Popen[str]) -> None:
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert output.endswith("done\n")


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("kind", ["pictures", "text"])
def test_killed_and_resumed_is_byte_identical(tmp_path: Path, kind: str) -> None:
    straight = start(tmp_path / "straight", kind=kind)
    journal, dice = tmp_path / "killed" / ".work" / "journal.json", random.Random()
    child = start(tmp_path / "killed", commit=0.0, pause=0.05, kind=kind)  # 40 batches, a journal after each
    wait_for(journal)
    time.sleep(dice.uniform(0, 0.4))
    kill(child)
    assert 0 < json.loads(journal.read_text())["samples"] < 120
    if kind == "pictures":  # and once more, with a journal seldom written
        child = start(tmp_path / "killed", commit=0.05, pause=0.02, kind=kind)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(dice.uniform(0, 0.4))
        kill(child)
    finish(start(tmp_path / "killed", kind=kind))
    finish(straight)
    want, got = files_of(tmp_path / "straight"), files_of(tmp_path / "killed")
    assert sorted(got) == sorted(want)
    assert [name for name in want if got[name] != want[name]] == []
    manifest = json.loads(want["manifest.json"])
    assert (manifest["text"] is None) == (kind == "pictures")
    assert (sum(manifest["tokens"]["high_norm"].values()) > 0) == (kind == "text")
    assert sum(name.startswith("train-") for name in want) > 3


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()
    assert child.returncode == -9, "the run was over before it was killed"


def test_two_runs_at_once(tmp_path: Path) -> None:
    first = start(tmp_path / "s", pause=1.0)  # far from done while the second one tries
    wait_for(tmp_path / "s" / ".work")
    second = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "s"), "0", "0", "pictures"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert second.returncode != 0
    assert "another process" in second.stderr.splitlines()[-1]
    kill(first)
