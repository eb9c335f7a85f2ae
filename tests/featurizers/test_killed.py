"""200 steps straight equal some steps, SIGKILL at a random moment, and a resume: bit for bit."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file
from torch.testing import assert_close

from monoseme.learning import read_log, without_clock

PROGRAM = """
import sys, torch
from pathlib import Path
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import AuxK, Grassmannian, TopK, fit
x = torch.randn(4000, 6, generator=generator(0)) @ torch.randn(6, 24, generator=generator(1))
fit(
    {"topk": TopK(24, 64, k=4), "grassmannian": Grassmannian(24, 32, 3, k=3)},
    ArrayRows(x), steps=200, batch_size=128, lr=3e-3, aux=AuxK(dead_after=1000), log_every=5,
    checkpoint_every=10, out=Path(sys.argv[1]),
)
"""


def run(out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(out)])


def test_killed_and_resumed_equals_straight(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert run(straight).wait() == 0

    stream = random.Random(time.time_ns())  # a moment nobody chose
    process = run(killed)
    while not (killed / "checkpoint").exists():
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(stream.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (killed / "topk").exists()  # it had not finished
    assert run(killed).wait() == 0

    files = sorted(path.relative_to(straight) for path in straight.rglob("*.safetensors"))
    assert Path("topk/featurizer.safetensors") in files
    assert any(file.parts[0] == "checkpoint" for file in files)  # weights, optimiser, counters
    for file in files:
        one, two = load_file(straight / file), load_file(killed / file)
        assert one.keys() == two.keys()
        for name in one:
            assert_close(one[name], two[name], rtol=0, atol=0)
    logs = [without_clock(read_log(folder / "log.jsonl")) for folder in (straight, killed)]
    assert logs[0] == logs[1]
