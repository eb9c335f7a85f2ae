"""A local server for runs: read-only, on 127.0.0.1, for requests that name it by that address.

Nothing is written and nothing is fetched. Pages that exist are served as they are; a body that is too large is refused,
and so is a request that a page elsewhere makes (see `guard`).
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from monoseme.core.errors import UserError, refuse
from monoseme.explorer.live.block import live_block_page
from monoseme.explorer.live.guard import Guard
from monoseme.explorer.live.page import live_page
from monoseme.explorer.live.schema import Run, Runs, Shape, Tried, schema
from monoseme.explorer.live.table import BlockTable, compare, number
from monoseme.records.run import RunRecord

__all__ = ["LARGEST", "LiveRun", "live_app", "serve"]

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
LARGEST = 16 << 20  # bytes of a picture or text that is tried
DIGITS = 9  # of a number in an address: longer ones mean nothing here, and Python refuses those of thousands


@dataclass(frozen=True)
class LiveRun:
    """A run to serve.

    Attributes
    ----------
    record
        What it shows of itself.
    pages
        Folder of its static pages; block pages are among them.
    tries
        ``"picture"``, ``"text"``, or empty when nothing can be tried.
    attempt
        Bytes of a picture file, or a text in UTF-8 → what the featurizer makes of it.
    why
        Why nothing can be tried.
    shape
        Number of a block → what it looks like from within; None for a block that is not there.
    """

    record: RunRecord
    pages: Path
    tries: str = ""
    attempt: Callable[[bytes], Tried] | None = None
    why: str = ""
    shape: Callable[[int], Shape | None] | None = None


def live_app(runs: list[LiveRun]) -> Any:
    """The application, for any ASGI server."""
    starlette = _starlette()
    if not runs:
        raise refuse("runs", "hold at least one", "none", "Name the folder of a run.")
    tables = [BlockTable(run.record) for run in runs]
    listed = Runs([_run(i, run) for i, run in enumerate(runs)])

    def chosen(request: Any, name: str = "run") -> int:
        word = str(request.path_params.get(name, request.query_params.get(name, "")))
        number = _whole(name, word)
        if number >= len(runs):
            raise refuse(name, f"lie in 0..{len(runs) - 1}", number, "See /api/runs.")
        return number

    def blocks(request: Any) -> Any:
        asked = request.query_params
        return tables[chosen(request)].page(
            asked.get("search", ""),
            asked.get("sort", ""),
            asked.get("order", "falling") != "rising",
            _whole("start", asked.get("start", "0")),
            _whole("count", asked.get("count", "50")),
        )

    def card(request: Any) -> Any:
        return tables[chosen(request)].card(_whole("block", request.path_params["block"]))

    def shape(request: Any) -> Any:
        number = chosen(request)
        measure, block = runs[number].shape, _whole("block", request.path_params["block"])
        if measure is None:
            raise refuse("run", "be opened with what measures its blocks", runs[number].record.title, "Use live_run.")
        if (found := measure(block)) is None:
            raise refuse("block", "be one of the run", block, "See the table of its blocks.")
        return found

    def side_by_side(request: Any) -> Any:
        return compare(*(runs[chosen(request, name)].record for name in ("first", "second")))

    def answer(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def endpoint(request: Any) -> Any:
            return starlette.JSONResponse(_plain(of(request)))

        return endpoint

    async def attempt(request: Any) -> Any:
        run = runs[chosen(request)]
        if run.attempt is None:
            raise refuse("run", "have a model to try", "none", run.why or "Its blocks can be browsed.")
        body = await _body(request)
        from starlette.concurrency import run_in_threadpool

        return starlette.JSONResponse(_plain(await run_in_threadpool(run.attempt, body)))

    index = live_page().document()
    routes = [
        starlette.Route("/", lambda request: starlette.HTMLResponse(index)),
        starlette.Route("/api/schema", answer(lambda request: schema())),
        starlette.Route("/api/runs", answer(lambda request: listed)),
        starlette.Route("/api/runs/{run}/blocks", answer(blocks)),
        starlette.Route("/api/runs/{run}/blocks/{block}", answer(card)),
        starlette.Route("/api/runs/{run}/blocks/{block}/shape", answer(shape)),
        starlette.Route("/api/compare", answer(side_by_side)),
        starlette.Route("/api/runs/{run}/try", attempt, methods=["POST"]),
        *_block_pages(starlette, runs),
        *[
            starlette.Mount(f"/run/{i}", starlette.StaticFiles(directory=run.pages, html=True))
            for i, run in enumerate(runs)
        ],
        *[starlette.Route(f"/{name}", _file(starlette, content, kind)) for name, content, kind in _assets()],
    ]

    def said(status: int) -> Callable[[Any, Exception], Any]:
        return lambda request, error: starlette.JSONResponse({"error": " ".join(str(error).split())}, status)

    app = starlette.Starlette(routes=routes, exception_handlers={UserError: said(400), OSError: said(500)})
    return Guard(app, HOSTS)  # outermost: what fails inside is guarded too


def _block_pages(starlette: Any, runs: list[LiveRun]) -> list[Any]:
    """Beside each run's own pages, where its data lies: the page of a block that asks the server, and what it needs."""
    found = []
    for i, run in enumerate(runs):
        page = live_block_page(run.record).document().encode()
        found.append(starlette.Route(f"/run/{i}/live-block.html", _file(starlette, page, "text/html")))
        for name, content, kind in _assets():
            found.append(starlette.Route(f"/run/{i}/live/{name}", _file(starlette, content, kind)))
    return found


def serve(runs: list[LiveRun], port: int = 8765, ready: Callable[[str], None] | None = None) -> None:
    """Serve until interrupted; `ready` is told the address once it is taken. Port 0 takes any that is free."""
    app = live_app(runs)
    import uvicorn

    with _taken(port) as taken:
        if ready is not None:
            ready(f"http://{HOST}:{taken.getsockname()[1]}/")
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, ws="none"))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn ends in order, then raises it again
            server.run(sockets=[taken])


def _taken(port: int) -> socket.socket:
    """The local address, ours before it is said to anybody."""
    if not 0 <= port < 1 << 16:
        raise refuse("port", "lie in 0..65535", port, "8765 is the usual one, and 0 any that is free.")
    taken = socket.socket()
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HOST, port))
        taken.listen(128)  # who is told the address may come at once, and waits
    except OSError as error:
        taken.close()
        raise refuse("port", "be free to use", f"{port} ({error.strerror})", "Another one: --port 0.") from None
    return taken


async def _body(request: Any) -> bytes:
    """The body, refused as soon as it is too large."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LARGEST:
            raise refuse("body", f"be at most {LARGEST >> 20} MB", "more", "Make the picture smaller.")
    if not found:
        raise refuse("body", "be a picture file or a text", "nothing", "Choose a file, or write something.")
    return bytes(found)


def _run(number_: int, run: LiveRun) -> Run:
    record = run.record
    numbers = [number(o) for group in record.outcomes for o in group.outcomes]
    return Run(
        number_,
        record.title,
        record.kind,
        dict(record.facts),
        list(record.notes),
        numbers,
        len(record.cards),
        run.tries,
        run.why,
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, dict) else json.loads(json.dumps(asdict(value), allow_nan=False))


def _whole(name: str, word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= DIGITS):
        raise refuse(name, f"be a whole number of at most {DIGITS} digits", repr(word[:40]), "For example 0.")
    return int(word)


def _assets() -> list[tuple[str, bytes, str]]:
    """Name, content and type of every style sheet and script."""
    ours, static = (resources.files(f"monoseme.explorer.{name}") / "assets" for name in ("live", "static"))
    return [
        ("page.css", (static / "page.css").read_bytes(), "text/css"),
        ("live.css", (ours / "live.css").read_bytes(), "text/css"),
        *[(name, (ours / name).read_bytes(), "text/javascript") for name in ("live.js", "live-block.js")],
        *[(name, (static / name).read_bytes(), "text/javascript") for name in ("page.js", "cloud.js", "block.js")],
    ]


def _file(starlette: Any, content: bytes, kind: str) -> Callable[[Any], Any]:
    return lambda request: starlette.Response(content, media_type=kind)


def _starlette() -> Any:
    """What we use of Starlette, in one place."""
    try:
        from starlette.applications import Starlette
        from starlette.responses import HTMLResponse, JSONResponse, Response
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    except ImportError:
        fix = 'pip install "monoseme[view]".'
        raise refuse("starlette", "be installed to serve pages", "not installed", fix) from None
    import types

    return types.SimpleNamespace(
        Starlette=Starlette,
        HTMLResponse=HTMLResponse,
        JSONResponse=JSONResponse,
        Response=Response,
        Mount=Mount,
        Route=Route,
        StaticFiles=StaticFiles,
    )
