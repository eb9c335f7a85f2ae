"""A vision-language model behind an OpenAI-compatible endpoint: vLLM, Ollama, LM Studio, llama.cpp, or a paid one.

The question is binary and shows the candidate alone. An answer that is empty, cut off, or none of yes, no and unsure is
"invalid" and asked again: thinking models spend their tokens on thoughts and return nothing, which is no "no".
Temperature 0 lowers, and does not remove, flips; so a question can be put several times, and the majority counts.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, as_png, eight_bit
from monoseme.core.errors import refuse

__all__ = ["ANSWERS", "EndpointJudge", "EndpointSettings", "answer_in", "parsed"]

ANSWERS: tuple[Answer, ...] = ("yes", "no", "unsure")
PROMPT_VERSION = 1
PROMPT = (
    "Look at the picture. Does it show {thing}? It may be stylised, distorted or in odd colours; what counts is "
    "whether a person would still call it {thing}. Answer with JSON: {{\"answer\": \"yes\"}}, "
    "{{\"answer\": \"no\"}} or "
    "{{\"answer\": \"unsure\"}}."
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": list(ANSWERS)}},
    "required": ["answer"],
    "additionalProperties": False,
}
LARGEST = 1 << 22  # bytes of an answer
RETRY = {408, 409, 425, 429, 500, 502, 503, 504}


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: urllib would send the key on to whatever address the server names."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class EndpointSettings:
    """How the endpoint is asked.

    Attributes
    ----------
    model
        Its name there.
    repeats
        How often each picture is judged; the majority counts, a tie is unsure.
    tokens
        Most tokens of an answer, thoughts included.
    structured
        Whether the JSON schema is sent along; some servers know none.
    timeout, tries, wait
        Seconds that a server may be silent; how often an answer is asked for; seconds before the second time, doubled
        each time.
    seed
        Sent along; the repeats count up from it.
    """

    model: str = "Qwen/Qwen3-VL-4B-Thinking"
    repeats: int = 1
    tokens: int = 4096
    structured: bool = True
    timeout: float = 120.0
    tries: int = 4
    wait: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.repeats, self.tokens, self.tries) < 1:
            got = (self.repeats, self.tokens, self.tries)
            raise refuse("repeats, tokens and tries", "be at least 1", got, "Leave them out.")
        if not (0 < self.timeout < math.inf and 0 <= self.wait < math.inf):
            raise refuse("timeout and wait", "be positive", (self.timeout, self.wait), "They are seconds.")


class EndpointJudge:
    """Asks an endpoint whether a picture shows a thing.

    Parameters
    ----------
    thing
        What the picture should show, with its article: "a skull".
    url
        Up to and with the version: ``http://127.0.0.1:8000/v1``. A server that sends elsewhere is not followed.
    key
        Sent as a bearer token; never kept, shown, or sent to another address. Read it from your environment; space and
        line ends around it are left out.
    settings
        How it is asked.
    """

    batch = 1

    def __init__(self, thing: str, url: str, key: str = "", settings: EndpointSettings | None = None) -> None:
        if not thing.strip():
            raise refuse("thing", "say what the picture shows", repr(thing), 'For example "a skull".')
        self.thing, self.url, self.settings = thing, _address(url), settings or EndpointSettings()
        self._key, self.asked = _header(key), 0
        self._opener = urllib.request.build_opener(_Stay)
        kept = {k: v for k, v in asdict(self.settings).items() if k not in ("timeout", "tries", "wait")}
        self.about: Mapping[str, Any] = {"judge": "endpoint", "thing": thing, "prompt": PROMPT_VERSION, **kept}

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """One verdict a picture: the majority of its valid answers; the score is the share of yes among them."""
        return [self._one(as_png(eight_bit(picture))) for picture in pictures]

    def _one(self, png: bytes) -> Verdict:
        found, notes = [], []
        for repeat in range(self.settings.repeats):
            answer, note = self._ask(png, self.settings.seed + repeat)
            found += [answer] if answer != "invalid" else []
            notes += [note] if note else []
        if not found:
            return Verdict("invalid", None, notes[-1] if notes else "no answer")
        counted = Counter(found).most_common()
        tie = len(counted) > 1 and counted[0][1] == counted[1][1]
        said = f"{counted[0][1]} of {len(found)}" + (f"; {notes[-1]}" if notes else "")
        return Verdict("unsure" if tie else counted[0][0], found.count("yes") / len(found), said)

    def _ask(self, png: bytes, seed: int) -> tuple[Answer, str]:
        """One answer, asked for again until it is one; "invalid" with the reason when tries run out."""
        note, wait = "", self.settings.wait
        for attempt in range(self.settings.tries):
            if attempt:
                time.sleep(wait)
                wait *= 2
            try:
                self.asked += 1
                answer, note = parsed(self._post(self._request(png, seed)))
            except urllib.error.HTTPError as error:
                note = f"HTTP {error.code}"
                with error:  # it holds the connection
                    said = _said(error)
                if error.code not in RETRY:
                    fix = "Is the model served there, and the key right?"
                    raise refuse("url", "answer a chat completion", f"{self.url}: {note} {said}", fix) from None
                continue
            except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError, RecursionError) as error:
                note = f"no answer: {getattr(error, 'reason', error)}"[:200]
                continue
            if answer != "invalid":
                return answer, ""
        if note.startswith(("no answer: [Errno", "no answer: [SSL")):
            raise refuse("url", "be reachable", f"{self.url} ({note})", "Start the server, or correct the address.")
        return "invalid", note

    def _request(self, png: bytes, seed: int) -> dict[str, Any]:
        picture = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        content = [
            {"type": "image_url", "image_url": {"url": picture}},
            {"type": "text", "text": PROMPT.format(thing=self.thing)},
        ]
        request: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "seed": seed,
            "max_tokens": self.settings.tokens,
        }
        if self.settings.structured:
            schema = {"name": "verdict", "strict": True, "schema": SCHEMA}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        return request

    def _post(self, request: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        body = json.dumps(request).encode()
        call = urllib.request.Request(f"{self.url}/chat/completions", body, headers)
        with self._opener.open(call, timeout=self.settings.timeout) as answer:
            return json.loads(answer.read(LARGEST))


def parsed(completion: Any) -> tuple[Answer, str]:
    """Read the answer of a chat completion, and why it is none where it is none."""
    try:
        choice = completion["choices"][0]
        content, reason = choice["message"].get("content"), choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        return "invalid", "not a chat completion"
    if reason == "length":
        return "invalid", "cut off: raise tokens"
    if not isinstance(content, str) or not content.strip():
        return "invalid", "empty"
    return answer_in(content)


def answer_in(content: str) -> tuple[Answer, str]:
    """Read the answer of a model's text, and why it is none; thoughts before it are left out.

    Templates may open the thoughts themselves: then only their end stands in the text.
    """
    text = re.sub(r"^.*</think>", "", content, flags=re.S).strip()
    if not text:
        return "invalid", "empty"
    text = re.sub(r"^```(?:json)?\s*|\s*```$", "", text)
    try:
        found = json.loads(text)
        word = found.get("answer") if isinstance(found, dict) else found
    except (ValueError, RecursionError):  # not JSON, or digits or brackets without end
        word = text.strip(" .!*\"'")
    word = word.strip().lower() if isinstance(word, str) else ""
    for answer in ANSWERS:
        if word == answer:
            return answer, ""
    return "invalid", f"no answer in {text[:60]!r}"


def _address(url: str) -> str:
    """The address without an end that would double the slash, if it is one."""
    fix = "For example http://127.0.0.1:8000/v1."
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, brackets that do not close
        plain = False
    if not plain or re.search(r"[^!-~]", url):
        raise refuse("url", "be an http address", repr(url), fix)
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        raise refuse("url", "hold no name or password", "one that does", "Pass a key as key=.")
    if "?" in url or "#" in url:
        raise refuse("url", "end with the version, without ? or #", repr(url), fix)
    return url.rstrip("/")


def _header(key: str) -> str:
    """The key, if it can stand in a header; never shown."""
    key = key.strip()
    if re.search(r"[^!-~]", key):
        raise refuse("key", "be one word of plain characters", "others", "Was a whole file read, or two keys?")
    return key


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(300).decode(errors="replace").split())
    except OSError:
        return ""
