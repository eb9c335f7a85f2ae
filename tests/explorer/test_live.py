"""The local server: answers that fit their schema, what it refuses, and the page in Chromium."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from tests.explorer.test_browser import CHROMIUM, DRIVER, driver, wait  # noqa: F401

from monoseme.api.viewing import live_run, tried
from monoseme.core.code import Code
from monoseme.core.outcome import Outcome
from monoseme.explorer.live import Fired, LiveRun, Tried, live_app
from monoseme.explorer.live.schema import schema
from monoseme.explorer.live.table import BlockTable, compare
from monoseme.explorer.static import write_pages
from monoseme.records import OutcomeGroup, RunRecord

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:uvicorn.*", "ignore::DeprecationWarning:websockets.*"
)


def attempt(body: bytes) -> Tried:
    return Tried(2, 3, [], [Fired(7, 0.8, [0.0, 1.0, 2.0, 0, 0, 0]), Fired(3, 0.2, [0.0] * 6)], len(body) / 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Any], make_picture: Any) -> Path:
    made = tmp_path_factory.mktemp("run")
    record = make_record(120, 3)
    record.save(made)
    write_pages(record, made / "pages", make_picture)
    (made / "secret.txt").write_text("secret")
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[tuple[str, int]]:
    one = live_run(folder, models=False)
    other = RunRecord("Another", "fit", outcomes=(OutcomeGroup("Held-out pictures", (Outcome("fvu", 0.5, "share"),)),))
    runs = [LiveRun(one.record, one.pages, "picture", attempt), LiveRun(other, one.pages)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(live_app(runs), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started and time.monotonic() < end:
        time.sleep(0.02)
    assert server.started
    yield "127.0.0.1", port
    server.should_exit = True
    thread.join(10)


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


def fits(value: Any, kind: dict[str, Any], whole: dict[str, Any]) -> bool:
    """A small reader of the part of JSON Schema that we write."""
    if "$ref" in kind:
        return fits(value, whole["$defs"][kind["$ref"].rsplit("/", 1)[1]], whole)
    if "anyOf" in kind:
        return any(fits(value, one, whole) for one in kind["anyOf"])
    if kind["type"] == "array":
        return isinstance(value, list) and all(fits(one, kind["items"], whole) for one in value)
    if kind["type"] == "object":
        if not isinstance(value, dict):
            return False
        known = kind.get("properties")
        if known is None:
            return all(fits(one, kind["additionalProperties"], whole) for one in value.values())
        return set(value) == set(kind["required"]) and all(fits(value[k], known[k], whole) for k in value)
    plain: dict[str, Any] = {"integer": int, "number": (int, float), "string": str, "null": type(None), "boolean": bool}
    return isinstance(value, plain[kind["type"]])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/runs", "Runs"),
        ("/api/runs/0/blocks?sort=density&count=10", "Blocks"),
        ("/api/runs/1/blocks", "Blocks"),
        ("/api/compare?first=0&second=1", "Comparison"),
    ],
)
def test_answers_fit_the_schema_that_is_served(address: tuple[str, int], path: str, name: str) -> None:
    answer, content = ask(address, path)
    assert answer.status == 200
    whole = json.loads(ask(address, "/api/schema")[1])
    assert whole == schema()
    assert fits(json.loads(content), whole["$defs"][name], whole)
    assert not fits({"nothing": 1}, whole["$defs"][name], whole)


def test_a_picture_is_tried(address: tuple[str, int]) -> None:
    answer, content = ask(address, "/api/runs/0/try", "POST", b"12345")
    assert answer.status == 200
    found = json.loads(content)
    assert fits(found, schema()["$defs"]["Tried"], schema())
    assert found["blocks"][0]["block"] == 7
    assert found["fvu"] == 0.05


def test_block_pages_are_served_as_they_are(address: tuple[str, int], folder: Path) -> None:
    answer, content = ask(address, "/run/0/block.html")
    assert answer.status == 200
    assert content == (folder / "pages" / "block.html").read_bytes()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/run/0/../record.json", 404),
        ("/run/0/..%2frecord.json", 404),
        ("/run/0/%2e%2e/secret.txt", 404),
        ("/run/0//etc/passwd", 404),
        ("/run/0/..%5csecret.txt", 404),
        ("/secret.txt", 404),
        ("/run/9/index.html", 404),
        ("/api/runs/9/blocks", 400),
        ("/api/runs/x/blocks", 400),
        ("/api/runs/0/blocks?sort=densty", 400),
        ("/api/runs/0/blocks?search=density%3Efar", 400),
        ("/api/runs/0/blocks?search=cat", 400),
        ("/api/runs/0/blocks?count=100000", 400),
        ("/api/runs/0/blocks?start=-1", 400),
        ("/api/compare?first=0", 400),
    ],
)
def test_what_is_not_there_or_not_meant_is_refused(address: tuple[str, int], path: str, status: int) -> None:
    answer, content = ask(address, path)
    assert answer.status == status
    assert b"secret" not in content.replace(b"secret.txt", b"")
    assert b"Traceback" not in content
    if status == 400:
        said = json.loads(content)["error"]
        assert "\n" not in said


def test_other_hosts_origins_and_methods_are_refused(address: tuple[str, int]) -> None:
    assert ask(address, "/api/runs", host="evil.example")[0].status == 400
    assert ask(address, "/api/runs", origin="http://evil.example")[0].status == 403
    assert ask(address, "/api/runs/0/try", "POST", b"x", origin="null")[0].status == 403
    own = f"http://127.0.0.1:{address[1]}"
    assert ask(address, "/api/runs/0/try", "POST", b"x", origin=own)[0].status == 200
    for method in ("PUT", "DELETE", "POST"):
        assert ask(address, "/api/runs", method, b"x")[0].status == 405
    assert ask(address, "/api/runs/0/try")[0].status == 405


def test_bodies_that_are_too_large_empty_or_unwanted_are_refused(address: tuple[str, int]) -> None:
    answer, content = ask(address, "/api/runs/0/try", "POST", b"x" * (17 << 20))
    assert answer.status == 400
    assert b"16 MB" in content
    assert ask(address, "/api/runs/0/try", "POST", b"")[0].status == 400
    assert b"model to try" in ask(address, "/api/runs/1/try", "POST", b"x")[1]


@pytest.mark.parametrize("path", ["/", "/live.js", "/api/runs", "/nowhere", "/run/0/index.html"])
def test_every_answer_has_its_guards(address: tuple[str, int], path: str) -> None:
    answer, _ = ask(address, path)
    assert "default-src 'none'" in (answer.getheader("Content-Security-Policy") or "")
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Access-Control-Allow-Origin") is None


def test_the_table_is_that_of_a_loop(make_record: Callable[..., Any]) -> None:
    record = make_record(120, 3)
    table = BlockTable(record)
    density = {card.block: card.outcomes[0].value for card in record.cards}
    rows = table.page("density>0.005", "density", count=100).rows
    wanted = sorted((b for b, v in density.items() if v > 0.005), key=lambda b: -density[b])
    assert [row.block for row in rows] == wanted
    rising = table.page("", "stable rank", falling=False, count=200).rows
    at = table.columns.index("stable rank")
    values = [row.numbers[at] for row in rising]
    known = [v for v in values if v is not None]
    assert known == sorted(known)
    assert values[len(known) :] == [None] * (120 - len(known))  # what is not known comes last
    assert [row.block for row in table.page("11", count=20).rows] == [
        11,
        110,
        111,
        112,
        113,
        114,
        115,
        116,
        117,
        118,
        119,
    ]
    assert table.page("density>2").total == 0
    assert [row.block for row in table.page(sort="block", count=2).rows] == [119, 118]
    pages = [row.block for start in range(0, 120, 50) for row in table.page(sort="density", start=start).rows]
    assert sorted(pages) == sorted(density)


def test_two_runs_side_by_side(make_record: Callable[..., Any]) -> None:
    one, two = make_record(2, 3), RunRecord("b", "fit", outcomes=(OutcomeGroup("New", (Outcome("x", 1.0, "1"),)),))
    rows = compare(one, two).rows
    assert rows[0].first is not None
    assert rows[0].second is None
    assert (rows[-1].name, rows[-1].first) == ("New: x", None)


def test_tried_is_what_the_featurizer_says() -> None:
    class Eye:
        atoms, bias = 2 * torch.eye(4)[:, None, :], torch.zeros(4)

        def encode(self, x: torch.Tensor, refine: object = None) -> Code:
            return Code.from_dense((x / 2 * (x > 0.5))[:, :, None])

        def decode(self, code: Code) -> torch.Tensor:
            return 2 * code.to_dense()[:, :, 0]

    x = torch.tensor([[1.0, 0, 3, 0], [0.2, 0, 4, 0]])
    found = tried(Eye(), x, (1, 2), torch.zeros(4), ["a", "b"])
    assert [(one.block, one.presence) for one in found.blocks] == [(2, [1.5, 2.0]), (0, [0.5, 0.0])]
    assert found.blocks[0].share == pytest.approx(25 / 26)
    assert found.fvu == pytest.approx(0.04 / float(x.square().sum()), rel=1e-5)
    assert found.tokens == ["a", "b"]


def test_folders_without_pages_and_no_run_are_refused(tmp_path: Path, folder: Path) -> None:
    check_refused(lambda: live_run(tmp_path), "monoseme page")
    check_refused(lambda: live_app([]), "runs")
    assert live_run(folder).tries == ""  # it has no store: it is browsed, and nothing can be tried


browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")


def open_page(driver: Any, address: tuple[str, int], width: int) -> None:  # noqa: F811
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get(f"http://127.0.0.1:{address[1]}/")
    wait(driver, "return document.querySelectorAll('#rows tr').length > 0")


@browser
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_search_sort_and_compare(driver: Any, address: tuple[str, int], width: int) -> None:  # noqa: F811
    from selenium.webdriver.common.keys import Keys

    open_page(driver, address, width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    first = "return document.querySelector('#rows th').textContent"
    search = driver.find_element("id", "search")
    search.send_keys("11")
    wait(driver, "return document.getElementById('where').textContent.includes('of 11 blocks')")
    assert driver.execute_script(first) == "11"
    search.send_keys(Keys.BACKSPACE, Keys.BACKSPACE)
    wait(driver, "return document.getElementById('where').textContent.includes('of 120 blocks')")
    search.send_keys(Keys.TAB)  # to the order, by keyboard
    assert driver.switch_to.active_element.get_attribute("id") == "sort"
    driver.execute_script(
        "const s = document.getElementById('sort'); s.value = 'density'; s.dispatchEvent(new Event('change'))"
    )
    wait(driver, "return document.querySelector('#rows th').textContent !== '0'")
    driver.execute_script("document.getElementById('next').click()")
    wait(driver, "return document.getElementById('where').textContent.startsWith('26 to 50')")
    assert "0.1873" in driver.find_element("id", "compared").text
    unnamed = (
        "return [...document.querySelectorAll('button, select, input, textarea')].filter(n => !n.labels?.length && "
    )
    unnamed += "!n.textContent.trim() && !n.getAttribute('aria-label')).length"
    assert driver.execute_script(unnamed) == 0
    assert driver.get_log("browser") == []


@browser
@pytest.mark.browser
def test_a_picture_of_ones_own(driver: Any, address: tuple[str, int], tmp_path: Path) -> None:  # noqa: F811
    from PIL import Image

    Image.fromarray(np.full((20, 30, 3), 128, np.uint8)).save(tmp_path / "mine.png")
    open_page(driver, address, 1280)
    driver.find_element("id", "file").send_keys(str(tmp_path / "mine.png"))
    driver.execute_script("document.getElementById('go').click()")
    wait(driver, "return document.querySelectorAll('#found canvas').length === 2")
    assert "Block 7" in driver.find_element("id", "found").text
    driver.execute_script(
        "const s = document.getElementById('search'); s.value = 'cat'; s.dispatchEvent(new Event('input'))"
    )
    wait(driver, "return document.getElementById('message').textContent.includes('search must')")
