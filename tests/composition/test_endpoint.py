"""The endpoint judge against a scripted server: good, malformed, empty, cut off, slow, 429, 500, and nobody there."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.composition.emc2 import emc2
from monoseme.composition.judges.endpoint import EndpointJudge, EndpointSettings, parsed
from monoseme.composition.scenes import scene
from monoseme.core.errors import UserError

QUICK = EndpointSettings(model="m", timeout=0.5, tries=3, wait=0.01)


def completion(content: Any, reason: str = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": reason}]}


class Server:
    """Answers from a script, the last line of it for ever; keeps what was asked."""

    def __init__(self) -> None:
        self.script: list[tuple[int, Any, float]] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append(json.loads(body))
                outer.headers.append(dict(self.headers))
                status, answer, wait = outer.script[min(len(outer.asked), len(outer.script)) - 1]
                time.sleep(wait)
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    if 300 <= status < 400 and isinstance(answer, dict):
                        self.send_header("Location", answer["Location"])
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the judge had gone

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.shutdown()
    made.server.server_close()


def ok(content: Any = '{"answer": "yes"}', reason: str = "stop", wait: float = 0.0) -> tuple[int, Any, float]:
    return 200, completion(content, reason), wait


PICTURE = torch.rand(1, 8, 8, 3, generator=torch.Generator().manual_seed(0))


def test_what_is_sent(server: Server) -> None:
    server.script = [ok()]
    (verdict,) = EndpointJudge("a skull", server.url, key="secret", settings=QUICK).judge(PICTURE)
    assert (verdict.answer, verdict.score) == ("yes", 1.0)
    (asked,) = server.asked
    assert asked["model"] == "m"
    assert asked["temperature"] == 0
    assert asked["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"] == ["yes", "no", "unsure"]
    image, text = asked["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert "a skull" in text["text"]
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert "secret" not in json.dumps(dict(EndpointJudge("a", server.url, key="secret").about))


SCRIPTS = {
    "malformed, then good": [(200, b"{not json", 0.0), ok('{"answer": "no"}')],
    "not a completion, then good": [(200, {"choices": []}, 0.0), ok('{"answer": "no"}')],
    "empty, then good": [ok(""), ok('{"answer": "no"}')],
    "null, then good": [ok(None), ok('{"answer": "no"}')],
    "cut off, then good": [ok('{"answer": "yes"}', "length"), ok('{"answer": "no"}')],
    "another word, then good": [ok("perhaps"), ok('{"answer": "no"}')],
    "slow, then good": [ok(wait=1.0), ok('{"answer": "no"}')],
    "429, then good": [(429, {}, 0.0), ok('{"answer": "no"}')],
    "500 twice, then good": [(500, {}, 0.0), (500, {}, 0.0), ok('{"answer": "no"}')],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_no_answer_is_asked_for_again(name: str, server: Server) -> None:
    server.script = list(SCRIPTS[name])
    (verdict,) = EndpointJudge("a skull", server.url, settings=QUICK).judge(PICTURE)
    assert verdict.answer == "no"
    assert len(server.asked) == len(SCRIPTS[name])


@pytest.mark.parametrize(
    ("line", "why"),
    [(ok(""), "empty"), (ok("x", "length"), "cut off"), (ok("maybe"), "maybe"), ((503, {}, 0.0), "503")],
)
def test_what_never_answers_is_invalid_and_says_why(line: tuple[int, Any, float], why: str, server: Server) -> None:
    server.script = [line]
    (verdict,) = EndpointJudge("a skull", server.url, settings=QUICK).judge(PICTURE)
    assert verdict.answer == "invalid"
    assert why in verdict.note
    assert len(server.asked) == QUICK.tries


def test_the_majority_of_repeats_counts_and_a_tie_is_unsure(server: Server) -> None:
    server.script = [ok('{"answer": "yes"}'), ok('{"answer": "no"}'), ok('{"answer": "yes"}')]
    three = EndpointSettings(model="m", repeats=3, tries=1, wait=0)
    (verdict,) = EndpointJudge("a skull", server.url, settings=three).judge(PICTURE)
    assert verdict.answer == "yes"
    assert verdict.score == pytest.approx(2 / 3)
    assert [asked["seed"] for asked in server.asked] == [0, 1, 2]
    server.asked.clear()
    two = EndpointSettings(model="m", repeats=2, tries=1, wait=0)
    assert EndpointJudge("a skull", server.url, settings=two).judge(PICTURE)[0].answer == "unsure"


def test_what_cannot_be_mended_stops_with_one_line(server: Server) -> None:
    server.script = [(404, {"error": "no such model"}, 0.0)]
    with pytest.raises(UserError, match="no such model") as caught:
        EndpointJudge("a skull", server.url, settings=QUICK).judge(PICTURE)
    assert "\n" not in str(caught.value)
    server.server.shutdown()
    server.server.server_close()
    with pytest.raises(UserError, match="reachable"):
        EndpointJudge("a skull", server.url, settings=QUICK).judge(PICTURE)


def test_a_score_asks_once_for_each_picture_and_asks_again_for_invalid_ones(server: Server, tmp_path: Path) -> None:
    server.script = [ok(), ok(), *[ok("")] * QUICK.tries, ok()]  # the third picture gets no answer
    first = emc2(scene("face"), EndpointJudge("a face", server.url, settings=QUICK), size=16, out=tmp_path, sample=6)
    assert [w.answer for w in first.per_weight].count("invalid") == 1
    assert first.score.n == 5
    server.asked.clear()
    second = emc2(scene("face"), EndpointJudge("a face", server.url, settings=QUICK), size=16, out=tmp_path, sample=6)
    assert len(server.asked) == 1
    assert second.score.n == 6


def test_a_key_read_from_a_file_is_sent_without_its_line_end(server: Server) -> None:
    server.script = [ok()]
    (verdict,) = EndpointJudge("a skull", server.url, key=" secret\n", settings=QUICK).judge(PICTURE)
    assert verdict.answer == "yes"
    assert server.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_key_is_not_sent_on_to_another_address(status: int, server: Server) -> None:
    other = Server()
    other.script = [ok()]
    try:
        server.script = [(status, {"Location": f"{other.url}/chat/completions"}, 0.0)]
        judge = EndpointJudge("a skull", server.url, key="secret", settings=QUICK)
        check_refused(lambda: judge.judge(PICTURE), f"HTTP {status}")
        assert len(server.asked) == 1
        assert other.headers == []
    finally:
        other.server.shutdown()
        other.server.server_close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"",
    ],
    ids=["no status", "a chunk cut off", "a body cut off", "brackets without end", "nothing"],
)
def test_a_server_that_speaks_no_http_is_asked_again_and_invalid(garbage: bytes) -> None:
    asked = []

    def serve() -> None:
        for _ in range(QUICK.tries):
            connection, _ = listening.accept()
            with connection:
                asked.append(len(connection.recv(1 << 16)))
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):  # closed with unread bytes, it would be reset
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        (verdict,) = EndpointJudge("a skull", url, settings=QUICK).judge(PICTURE)
        thread.join(5)
    assert verdict.answer == "invalid"
    assert verdict.note
    assert len(asked) == QUICK.tries


def test_a_server_without_the_secure_layer_is_refused(server: Server) -> None:
    judge = EndpointJudge("a skull", server.url.replace("http:", "https:"), settings=QUICK)
    check_refused(lambda: judge.judge(PICTURE), "SSL")


ANSWERS = {
    '{"answer": "yes"}': "yes",
    '{"answer": "Unsure"}': "unsure",
    '```json\n{"answer": "no"}\n```': "no",
    "<think>yes, yes</think>\nno": "no",
    "Yes.": "yes",
    '"no"': "no",
    "yes, but also no": "invalid",
    '{"answer": 1}': "invalid",
    "[]": "invalid",
    "**Yes**": "yes",
    'the template opened the thoughts: yes</think>\n\n{"answer": "no"}': "no",
    "<think>yes": "invalid",
    "<think>yes</think>\n": "invalid",
    "[" * 100_000: "invalid",
    "9" * 6000: "invalid",
}


@pytest.mark.parametrize("content", ANSWERS, ids=[content[:20] for content in ANSWERS])
def test_answers_are_read_as_what_they_say(content: str) -> None:
    assert parsed(completion(content))[0] == ANSWERS[content]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: EndpointJudge("a skull", "file:///etc/passwd"), "url"),
        (lambda: EndpointJudge("a skull", "localhost"), "url"),
        (lambda: EndpointJudge("a skull", "http://127.0.0.1:abc/v1"), "url"),
        (lambda: EndpointJudge("a skull", "http://127.0.0.1:99999/v1"), "url"),
        (lambda: EndpointJudge("a skull", "http://[::1/v1"), "url"),
        (lambda: EndpointJudge("a skull", "http://a b/v1"), "url"),
        (lambda: EndpointJudge("a skull", "http://me:secret@a/v1"), "url"),
        (lambda: EndpointJudge("a skull", "http://a/v1?version=2"), "url"),
        (lambda: EndpointJudge("a skull", "http://a/v1", key="secret\nword"), "key"),
        (lambda: EndpointJudge("a skull", "http://a/v1", key="secrét"), "key"),
        (lambda: EndpointJudge(" ", "http://127.0.0.1:1/v1"), "thing"),
        (lambda: EndpointSettings(repeats=0), "repeats"),
        (lambda: EndpointSettings(timeout=0), "timeout"),
        (lambda: EndpointSettings(timeout=math.inf), "timeout"),
    ],
)
def test_wrong_settings_are_refused(call: Any, argument: str) -> None:
    check_refused(call, argument)
    with pytest.raises(UserError) as caught:
        call()
    assert "secr" not in str(caught.value)
