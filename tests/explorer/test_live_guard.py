"""What the local server refuses, and that Chromium keeps a page elsewhere from reading it."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.composition.refusals import check_refused
from tests.explorer.serving import ask
from tests.explorer.test_browser import CHROMIUM, DRIVER, driver, wait  # noqa: F401

from monoseme.explorer.live import serve
from monoseme.explorer.live.guard import HEADERS

Address = tuple[str, int]


def test_other_hosts_are_refused(address: Address) -> None:
    for host in ("evil.example", f"evil.example:{address[1]}", "127.0.0.1.evil.example", "", "[::1]", "127.0.0.1@evil"):
        assert ask(address, "/api/runs", host=host)[0].status == 400
    for host in ("127.0.0.1", f"localhost:{address[1]}"):
        assert ask(address, "/api/runs", host=host)[0].status == 200


def test_two_or_no_hosts_are_refused(address: Address) -> None:
    for lines in ("", "Host: 127.0.0.1\r\nHost: evil.example\r\n"):
        with socket.create_connection(address, timeout=10) as raw:
            raw.sendall(f"GET /api/runs HTTP/1.0\r\n{lines}\r\n".encode())
            assert b" 400 " in raw.recv(200)


def test_other_origins_are_refused(address: Address) -> None:
    own = f"http://127.0.0.1:{address[1]}"
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{address[1]}"):
        assert ask(address, "/api/runs", origin=origin)[0].status == 403
        assert ask(address, "/api/runs/0/try", "POST", b"x", origin=origin)[0].status == 403
    assert ask(address, "/api/runs/0/try", "POST", b"x", host=own[7:], origin=own)[0].status == 200


def fetched(address: Address, path: str, site: str, mode: str, dest: str) -> int:
    headers: Any = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    return ask(address, path, **headers)[0].status


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_only_a_link_may_come_from_another_site(address: Address, site: str) -> None:
    shard = "/run/0/data/0.js"
    for mode, dest in (("no-cors", "script"), ("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe")):
        assert fetched(address, shard, site, mode, dest) == 403
    assert fetched(address, "/", site, "navigate", "document") == 200
    for own in ("same-origin", "none"):
        assert fetched(address, "/", own, "navigate", "document") == 200
        assert fetched(address, "/api/runs", own, "cors", "empty") == 200


def test_a_slow_body_keeps_nobody_else_waiting(address: Address) -> None:
    with socket.create_connection(address, timeout=10) as slow:
        head = f"POST /api/runs/0/try HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\nContent-Length: 9\r\n\r\n"
        slow.sendall(head.encode() + b"x")
        assert ask(address, "/api/runs")[0].status == 200
        assert ask(address, "/api/runs/0/try", "POST", b"12345")[0].status == 200
    assert ask(address, "/api/runs")[0].status == 200  # it went away in the middle


def test_nothing_is_changed_by_any_method(address: Address) -> None:
    for method in ("PUT", "DELETE", "POST", "PATCH", "OPTIONS"):
        assert ask(address, "/api/runs", method, b"x")[0].status == 405
        assert ask(address, "/run/0/index.html", method, b"x")[0].status == 405
    assert ask(address, "/api/runs/0/try")[0].status == 405


@pytest.mark.parametrize("path", ["/", "/live.js", "/api/runs", "/nowhere", "/run/0/index.html", "/api/runs/77/blocks"])
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
def test_every_answer_has_its_guards(address: Address, path: str, host: str) -> None:
    answer, _ = ask(address, path, host=host)
    for name, value in HEADERS.items():
        assert answer.getheader(name) == value
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control")]


def test_ports_that_are_taken_or_none_are_refused() -> None:
    from monoseme.explorer.live import LiveRun
    from monoseme.records import RunRecord

    runs = [LiveRun(RunRecord("t", "fit"), Path())]
    told: list[str] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        check_refused(lambda: serve(runs, port, told.append), f"port must be free to use; got {port}")
    check_refused(lambda: serve(runs, 70_000, told.append), "port must lie in")
    check_refused(lambda: serve(runs, -1, told.append), "port must lie in")
    assert told == []  # an address is said only when it is ours


def test_the_command_says_where_it_is_serves_and_stops(run_folder: Path) -> None:
    command = [sys.executable, "-m", "monoseme.cli.main", "view", str(run_folder), "--port", "0", "--no-models"]
    before = sorted((p, p.stat().st_mtime_ns) for p in run_folder.rglob("*"))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as program:
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            where = line.split()[0]
            assert where.startswith("http://127.0.0.1:"), line
            with urllib.request.urlopen(f"{where}api/runs", timeout=20) as answer:
                assert json.load(answer)["runs"][0]["why"] == "Models are not opened here."
        finally:
            program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=20)
    assert program.returncode == 0, said
    assert "Traceback" not in said
    assert sorted((p, p.stat().st_mtime_ns) for p in run_folder.rglob("*")) == before  # nothing was written


STEALS = """<!doctype html><title>elsewhere</title><body><script>
window.taken = []; window.done = 0;
window.monoseme = {{add: (...a) => taken.push(a), index: (...a) => taken.push(a)}};
for (const path of {paths}) {{
  const s = document.createElement("script"); s.src = "{at}" + path;
  s.onload = () => {{ taken.push(path); done++; }}; s.onerror = () => done++;
  document.body.append(s);
}}
fetch("{at}/api/runs").then((a) => taken.push(a.status)).catch(() => 0).finally(() => done++);
fetch("{at}/api/runs/0/try", {{method: "POST", body: "x", mode: "no-cors"}}).catch(() => 0).finally(() => done++);
const f = document.createElement("iframe"); f.src = "{at}/"; document.body.append(f);
</script>"""


@pytest.fixture
def elsewhere(address: Address, tmp_path: Path) -> Iterator[str]:
    """A page of another origin that tries to take what the server has."""
    paths = ["/run/0/data/0.js", "/run/0/data/1.js", "/run/0/data/index.js", "/live.js"]
    page = STEALS.format(at=f"http://127.0.0.1:{address[1]}", paths=json.dumps(paths))
    (tmp_path / "index.html").write_text(page)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])  # same site (another port), and another site
def test_a_page_elsewhere_gets_nothing(driver: Any, elsewhere: str, name: str) -> None:  # noqa: F811
    driver.get(elsewhere.replace("127.0.0.1", name))
    wait(driver, "return window.done === 6")
    assert driver.execute_script("return window.taken") == []
