"""A vision-language model behind an OpenAI-compatible endpoint: vLLM, Ollama, LM Studio, llama.cpp, or a paid one.

The question is binary and shows the candidate alone. An answer that is empty, cut off, or none of yes, no and unsure is
"invalid" and asked again: thinking models spend their tokens on thoughts and return nothing, which is no "no".
Temperature 0 lowers, and does not remove, flips; so a question can be put several times, and the majority counts.
"""

from __future__ import annotations

import base64
import json
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

__all__ = ["ANSWERS", "EndpointJudge", "EndpointSettings", "parsed"]

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
        Seconds an answer may take; how often it is asked for; seconds before the second time, doubled each time.
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
        if not (self.timeout > 0 and self.wait >= 0):
            raise refuse("timeout and wait", "be positive", (self.timeout, self.wait), "They are seconds.")


class EndpointJudge:
    """Asks an endpoint whether a picture shows a thing.

    Parameters
    ----------
    thing
        What the picture should show, with its article: "a skull".
    url
        Up to and with the version: ``http://127.0.0.1:8000/v1``.
    key
        Sent as a bearer token; never kept. Read it from your environment.
    settings
        How it is asked.
    """

    batch = 1

    def __init__(self, thing: str, url: str, key: str = "", settings: EndpointSettings | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise refuse("url", "be an http address", repr(url), "For example http://127.0.0.1:8000/v1.")
        if not thing.strip():
            raise refuse("thing", "say what the picture shows", repr(thing), 'For example "a skull".')
        self.thing, self.url, self.settings = thing, url.rstrip("/"), settings or EndpointSettings()
        self._key, self.asked = key, 0
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
            except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError) as error:
                note = f"no answer: {getattr(error, 'reason', error)}"[:200]
                continue
            if answer != "invalid":
                return answer, ""
        if note.startswith("no answer: [Errno"):
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
        with urllib.request.urlopen(call, timeout=self.settings.timeout) as answer:
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
    text = re.sub(r"<think>.*?</think>", "", content, flags=re.S).strip()
    text = re.sub(r"^```(?:json)?\s*|\s*```$", "", text)
    try:
        found = json.loads(text)
        word = found.get("answer") if isinstance(found, dict) else found
    except json.JSONDecodeError:
        word = text.strip(" .!\"'")
    word = word.strip().lower() if isinstance(word, str) else ""
    for answer in ANSWERS:
        if word == answer:
            return answer, ""
    return "invalid", f"no answer in {text[:60]!r}"


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(300).decode(errors="replace").split())
    except OSError:
        return ""
