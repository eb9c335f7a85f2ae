"""A scoring run with the endpoint judge that is killed outright: what was answered is never asked again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.composition.test_endpoint import Server, ok, server

__all__ = ["server"]  # the fixture

PROGRAM = """
import sys
from monoseme.composition.emc2 import emc2
from monoseme.composition.judges import CascadeJudge, EndpointJudge, EndpointSettings, PixelJudge
from monoseme.composition.scenes import scene
judge = EndpointJudge("a face", sys.argv[1], settings=EndpointSettings(model="m", tries=1, timeout=60))
if sys.argv[3] == "cascade":
    judge = CascadeJudge(PixelJudge(scene("face").render(16).float(), 0.5), judge, 0.0, 1.0)
found = emc2(scene("face"), judge, size=16, out=sys.argv[2], sample=12)
print(found.score.n, int(found.cost["different"]), int(found.cost["judged"]))
"""


@pytest.mark.parametrize("kind", ["alone", "cascade"])
def test_no_picture_that_was_answered_is_asked_again(kind: str, server: Server, tmp_path: Path) -> None:
    answered_before = 5
    root = Path(__file__).parents[2]
    run = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path / "out"), kind]
    where = {"cwd": root, "env": {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}}
    server.script = [*[ok()] * answered_before, ok(wait=60)]  # it dies while the next question is open
    child = subprocess.Popen(run, **where)
    for _ in range(1200):
        if len(server.asked) > answered_before:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = [shown(question) for question in server.asked]
    assert len(before) == answered_before + 1
    server.asked.clear()
    server.script = [ok()]
    again = subprocess.run(run, **where, capture_output=True, text=True, check=True)
    after = [shown(question) for question in server.asked]
    n, different, judged = map(int, again.stdout.split())
    assert n == 12
    assert max(Counter([*before[:answered_before], *after]).values()) == 1
    assert after[0] == before[-1]  # the open question, which had no answer
    assert len(after) == judged == different - answered_before


def shown(question: dict) -> str:
    return question["messages"][0]["content"][0]["image_url"]["url"]
