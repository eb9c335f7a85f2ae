"""A server with two runs, on a port of its own, and how to ask it. Imported by the tests of the live page."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from monoseme.api.viewing import live_run
from monoseme.core.outcome import Outcome
from monoseme.explorer.live import Fired, LiveRun, Tried, live_app
from monoseme.records import OutcomeGroup, RunRecord

__all__ = ["ask", "attempt", "served", "two_runs"]

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")


@contextmanager
def served(runs: list[LiveRun]) -> Iterator[tuple[str, int]]:
    """Host and port of a server that is up."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(live_app(runs), log_level="error", ws="none"))
        thread = threading.Thread(target=lambda: server.run(sockets=[taken]), daemon=True)
        thread.start()
        end = time.monotonic() + 20
        while not server.started and time.monotonic() < end:
            time.sleep(0.02)
        assert server.started
        try:
            yield taken.getsockname()
        finally:
            server.should_exit = True
            thread.join(10)


def attempt(body: bytes) -> Tried:
    """Stands for a model: says how long the body was."""
    return Tried(2, 3, [], [Fired(7, 0.8, [0.0, 1.0, 2.0, 0, 0, 0]), Fired(3, 0.2, [0.0] * 6)], len(body) / 100)


def two_runs(folder: Path) -> list[LiveRun]:
    """The run in `folder`, on which pictures can be tried; and another without blocks."""
    one = live_run(folder, models=False)
    held = OutcomeGroup("Held-out pictures", (Outcome("fvu", 0.5, "share"),))
    other = RunRecord("Another", "fit", outcomes=(held,))
    return [
        LiveRun(one.record, one.pages, "picture", attempt, shape=one.shape),
        LiveRun(other, one.pages, why="It has no store."),
    ]


def ask(address: tuple[str, int], path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content
