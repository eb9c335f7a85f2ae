"""Importing is cheap: no network, no heavy optional package, and less processor time than torch's own import takes.

torch takes about one second; the share is measured in one process, so a busy machine slows both alike.
"""

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
start = time.process_time()
import torch

torch_only = time.process_time()
import MODULE

share = (time.process_time() - torch_only) / (torch_only - start)
print(json.dumps([share, [name for name in {HEAVY} if name in sys.modules], torch.cuda.is_initialized()]))
"""


def imported(module: str) -> tuple[float, list[str], bool]:
    program = PROGRAM.replace("MODULE", module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def test_importing_takes_little_beyond_torch() -> None:
    share, heavy, cuda = imported("monoseme")
    assert share < 1
    assert heavy == []
    assert not cuda


def test_the_command_line_takes_little_more() -> None:
    share, heavy, _ = imported("monoseme.cli.main")
    assert share < 1
    assert heavy == []


def test_importing_needs_no_posix() -> None:
    program = "import sys; sys.modules['fcntl'] = None; import monoseme"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
