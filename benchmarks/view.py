"""How soon the local server's page is there, with 4,096 blocks.

python -m benchmarks.view
"""

from __future__ import annotations

import http.client
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn

from monoseme.core.cards import BlockCard
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import rng
from monoseme.explorer.live import LiveRun, live_app
from monoseme.explorer.static import write_pages
from monoseme.records import RunRecord

BLOCKS = 4096


def card(block: int, stream: np.random.Generator) -> BlockCard:
    """A card with eight numbers, and nothing to look at."""
    numbers = tuple(Outcome(f"number {i}", float(stream.normal()), "1") for i in range(8))
    return BlockCard(block, 3, numbers, (), np.zeros((0, 3), np.float32))


def main() -> None:
    """Serve, and time the first page with its first table, and a search with another order."""
    stream = rng(0, "view")
    record = RunRecord("Many blocks", "fit", cards=tuple(card(g, stream) for g in range(BLOCKS)))
    with tempfile.TemporaryDirectory() as folder:
        write_pages(record, Path(folder) / "pages")
        start = time.perf_counter()
        app = live_app([LiveRun(record, Path(folder) / "pages")])
        print(f"{BLOCKS:,} blocks: ready in {time.perf_counter() - start:.2f} s")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
        threading.Thread(target=server.run, daemon=True).start()
        while not server.started:
            time.sleep(0.01)
        first = ("/", "/page.css", "/live.css", "/live.js", "/api/runs", "/api/runs/0/blocks?count=25")
        for name, paths in (
            ("first page", first),
            ("search and order", ("/api/runs/0/blocks?search=1&sort=number+3",)),
        ):
            start = time.perf_counter()
            for path in paths:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                connection.request("GET", path)
                connection.getresponse().read()
                connection.close()
            print(f"{name}: {1000 * (time.perf_counter() - start):.0f} ms")
        server.should_exit = True


if __name__ == "__main__":
    main()
