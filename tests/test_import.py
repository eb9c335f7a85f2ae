"""Importing is cheap: no network, no heavy optional package, little time beyond torch's own."""

import json
import subprocess
import sys

HEAVY = ["numba", "scipy", "skimage", "sklearn", "onnx", "PIL", "matplotlib", "pandas", "transformers", "torchvision"]
PROGRAM = f"""
import json, sys, time

def closed(event, arguments):
    if event.split(".")[0] in ("socket", "urllib", "http"):
        raise AssertionError("importing reached for the network: " + event)

sys.addaudithook(closed)
import torch

start = time.perf_counter()
import MODULE

seconds = time.perf_counter() - start
print(json.dumps([seconds, [name for name in {HEAVY} if name in sys.modules], torch.cuda.is_initialized()]))
"""


def imported(module: str) -> tuple[float, list[str], bool]:
    program = PROGRAM.replace("MODULE", module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def test_importing_takes_little_beyond_torch() -> None:
    seconds, heavy, cuda = imported("monoseme")
    assert seconds <= 2
    assert heavy == []
    assert not cuda


def test_the_command_line_takes_little_more() -> None:
    seconds, heavy, _ = imported("monoseme.cli.main")
    assert seconds <= 2
    assert heavy == []
