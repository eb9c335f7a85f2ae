"""How soon the local server's page is there, with 4,096 blocks that look like real ones.

python -m benchmarks.view

The record is read once, when the command starts; a page opens in what comes after. Chromium is asked where it is there.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn

from monoseme.api.viewing import live_run
from monoseme.core.cards import BlockCard, Shown
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import rng
from monoseme.explorer.live import live_app
from monoseme.explorer.static import write_pages
from monoseme.records import RunRecord, SampleView

BLOCKS, SAMPLES, SIDE, REPEATS = 4096, 200, 16, 5


def card(block: int, stream: np.random.Generator) -> BlockCard:
    """A card with eight numbers, eight samples of 16 x 16 tokens of which a tenth are active, and 240 positions."""
    numbers = tuple(Outcome(f"number {i}", float(stream.normal()), "1", 0.0, 1.0) for i in range(8))
    shown = []
    for sample in stream.choice(SAMPLES, 8, replace=False):
        presence = (stream.random(SIDE * SIDE) * (stream.random(SIDE * SIDE) < 0.1)).astype(np.float32)
        place = (stream.normal(size=(SIDE * SIDE, 3)) * (presence > 0)[:, None]).astype(np.float32)
        shown.append(Shown(f"s{sample}", (SIDE, SIDE), presence, place))
    return BlockCard(block, 3, numbers, tuple(shown), stream.normal(size=(240, 3)).astype(np.float32))


def chromium(address: str) -> list[float] | None:
    """Milliseconds from the start of a navigation to the table, cache off; None without Chromium."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return None
    from tools.screenshots import browser

    found = []
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.execute_cdp_cmd("Network.enable", {})
            driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
            for _ in range(REPEATS):
                driver.get("about:blank")
                driver.get(address)
                drawn = "const [done] = arguments; const look = () => document.querySelector('#rows tr') "
                drawn += "? done(performance.now()) : setTimeout(look, 2); look();"
                found.append(float(driver.execute_async_script(drawn)))
        finally:
            driver.quit()
    return found


def main() -> None:
    """Read, serve, and time the first page with its table, searches, a card, and Chromium."""
    stream = rng(0, "view")
    cards = tuple(card(g, stream) for g in range(BLOCKS))
    views = {f"s{i}": SampleView(label=f"class {i % 20}") for i in range(SAMPLES)}
    record = RunRecord("Many blocks", "fit", cards=cards, samples=views)
    with tempfile.TemporaryDirectory() as folder:
        record.save(folder)
        write_pages(record, Path(folder) / "pages")
        start = time.perf_counter()
        run = live_run(folder, models=False)
        read = time.perf_counter()
        app = live_app([run])
        print(f"{BLOCKS:,} blocks: record read in {read - start:.2f} s, ready {time.perf_counter() - read:.2f} s later")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
            thread = threading.Thread(target=lambda: server.run(sockets=[taken]), daemon=True)
            thread.start()
            while not server.started:
                time.sleep(0.01)
            ask(port)
            if times := chromium(f"http://127.0.0.1:{port}/"):
                print(f"Chromium, to the table: median {np.median(times):.0f} ms of {[round(t) for t in times]}")
            server.should_exit = True
            thread.join(10)


def ask(port: int) -> None:
    """Time what a page asks for, one after another."""
    first = ("/", "/page.css", "/live.css", "/live.js", "/api/runs", "/api/runs/0/blocks?count=25")
    for name, paths in (
        ("first page", first),
        ("search and order", ("/api/runs/0/blocks?search=1&sort=number+3",)),
        ("first search for a word", ("/api/runs/0/blocks?search=class",)),
        ("another", ("/api/runs/0/blocks?search=7&sort=number+1",)),
        ("one card", ("/api/runs/0/blocks/4000",)),
    ):
        start = time.perf_counter()
        for path in paths:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status}")
        print(f"{name}: {1000 * (time.perf_counter() - start):.0f} ms")


if __name__ == "__main__":
    main()
