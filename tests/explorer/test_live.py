"""The local server: answers that fit their schema, what it refuses, and the page in Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused
from tests.explorer.serving import ask

from monoseme.api.viewing import live_run
from monoseme.core.outcome import Outcome
from monoseme.explorer.live import __file__ as live_file
from monoseme.explorer.live import live_app
from monoseme.explorer.live.schema import declarations, schema
from monoseme.explorer.live.table import BlockTable, compare
from monoseme.records import OutcomeGroup, RunRecord, SampleView

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:uvicorn.*", "ignore::DeprecationWarning:websockets.*"
)


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
        ("/api/runs/0/blocks/7", "Card"),
        ("/api/runs/0/blocks/16", "Card"),
        ("/api/runs/0/blocks/7/shape", "Shape"),
        ("/api/runs/0/blocks/16/shape", "Shape"),
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


def test_the_scripts_types_are_those_of_the_schema() -> None:
    written = Path(live_file).parent / "assets" / "answers.d.ts"
    assert written.read_text() == declarations()
    assert "fvu: number | null;" in declarations()
    assert "facts: Record<string, string>;" in declarations()


def test_a_card_is_whole(address: tuple[str, int], run_folder: Path) -> None:
    found = json.loads(ask(address, "/api/runs/0/blocks/7")[1])
    card = RunRecord.load(run_folder).cards[7]
    assert [n["name"] for n in found["numbers"]] == [o.name for o in card.outcomes]
    assert found["numbers"][0]["value"] == card.outcomes[0].value
    for seen, item in zip(found["shown"], card.shown, strict=True):
        assert (seen["sample"], seen["height"], seen["width"]) == (item.sample, *item.grid)
        presence = np.zeros(len(item.presence))
        presence[seen["positions"]] = seen["presence"]
        np.testing.assert_allclose(presence, item.presence, rtol=1e-3)
        np.testing.assert_allclose(seen["place"], item.place[seen["positions"]], rtol=1e-3)
        assert seen["label"].startswith("Picture ")
    np.testing.assert_allclose(found["cloud"], card.cloud, rtol=1e-3)
    dead = json.loads(ask(address, "/api/runs/0/blocks/16")[1])
    assert (dead["shown"], dead["cloud"], dead["size"]) == ([], [], 3)


def test_a_picture_is_tried(address: tuple[str, int]) -> None:
    answer, content = ask(address, "/api/runs/0/try", "POST", b"12345")
    assert answer.status == 200
    found = json.loads(content)
    assert fits(found, schema()["$defs"]["Tried"], schema())
    assert found["blocks"][0]["block"] == 7
    assert found["fvu"] == 0.05


def test_block_pages_are_served_as_they_are(address: tuple[str, int], run_folder: Path) -> None:
    answer, content = ask(address, "/run/0/block.html")
    assert answer.status == 200
    assert content == (run_folder / "pages" / "block.html").read_bytes()


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
        ("/run/0/link.txt", 404),  # a link out of the folder
        ("/api/runs/9/blocks", 400),
        ("/api/runs/0/blocks/120", 400),
        ("/api/runs/0/blocks/-1", 400),
        ("/api/runs/0/blocks/120/shape", 400),
        ("/api/runs/0/blocks/x/shape", 400),
        ("/api/runs/1/blocks/0/shape", 400),  # it measures nothing
        ("/run/0/live/", 404),
        ("/run/0/live/..%2f..%2fsecret.txt", 404),
        ("/run/9/live-block.html", 404),
        ("/api/runs/0/blocks/" + "9" * 5000, 400),  # more digits than Python turns into a number
        ("/api/runs/" + "9" * 5000 + "/blocks", 400),
        ("/api/runs/0/blocks?start=" + "9" * 5000, 400),
        ("/api/runs/0/blocks?start=%D9%A3", 400),  # an Arabic digit
        ("/api/runs/0/blocks?search=density%3Enan", 400),
        ("/api/runs/0/blocks?search=%3E1", 400),
        ("/api/runs/x/blocks", 400),
        ("/api/runs/0/blocks?sort=densty", 400),
        ("/api/runs/0/blocks?search=density%3Efar", 400),
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


def test_bodies_that_are_too_large_empty_or_unwanted_are_refused(address: tuple[str, int]) -> None:
    answer, content = ask(address, "/api/runs/0/try", "POST", b"x" * (17 << 20))
    assert answer.status == 400
    assert b"16 MB" in content
    assert ask(address, "/api/runs/0/try", "POST", b"")[0].status == 400
    assert b"model to try" in ask(address, "/api/runs/1/try", "POST", b"x")[1]


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
    assert [row.block for row in table.page("11", count=20).rows] == [11, *range(110, 120)]
    assert table.page("stable_rank<2").rows == table.page("stable_rank<2", count=50).rows != []
    assert [row.block for row in table.page(sort="stable_rank", count=9).rows] == [
        row.block for row in table.page(sort="stable rank", count=9).rows
    ]
    assert table.page("density>2").total == 0
    assert [row.block for row in table.page(sort="block", count=2).rows] == [119, 118]
    pages = [row.block for start in range(0, 120, 50) for row in table.page(sort="density", start=start).rows]
    assert sorted(pages) == sorted(density)


def test_words_are_looked_for_in_what_a_block_fires_on(make_record: Callable[..., Any]) -> None:
    pictures = make_record(40, 3)
    found = BlockTable(pictures).page("picture 17", count=100)
    labels = {card.block: {pictures.samples[item.sample].label for item in card.shown} for card in pictures.cards}
    # two words: any label with "picture", and a block's number that begins with 17
    assert [row.block for row in found.rows] == [b for b in labels if labels[b] and str(b).startswith("17")]
    named = RunRecord(
        "t", "fit", cards=pictures.cards, samples={n: SampleView(label=f"Été-{n}") for n in pictures.samples}
    )
    rows = BlockTable(named).page("ÉTÉ-photo-0017", count=100).rows
    wanted = [c.block for c in named.cards if any(item.sample == "photo-0017" for item in c.shown)]
    assert [row.block for row in rows] == wanted != []
    assert BlockTable(pictures).page("zebra").total == 0

    texts = make_record(20, 3, (1, 16))
    table = BlockTable(texts)
    fired = [
        card.block
        for card in texts.cards
        if any("cat" in texts.samples[i.sample].tokens[t] for i in card.shown for t in np.flatnonzero(i.presence))
    ]
    assert [row.block for row in table.page("CAT", count=100).rows] == fired != []
    check_refused(lambda: table.page("<b>"), "search must")  # a condition without a column


def test_two_runs_side_by_side(make_record: Callable[..., Any]) -> None:
    one, two = make_record(2, 3), RunRecord("b", "fit", outcomes=(OutcomeGroup("New", (Outcome("x", 1.0, "1"),)),))
    rows = compare(one, two).rows
    assert rows[0].first is not None
    assert rows[0].second is None
    assert (rows[-1].name, rows[-1].first) == ("New: x", None)


def test_folders_without_pages_and_no_run_are_refused(tmp_path: Path, run_folder: Path) -> None:
    check_refused(lambda: live_run(tmp_path), "monoseme page")
    check_refused(lambda: live_app([]), "runs")
    lone = live_run(run_folder)  # it has no store: it is browsed, and nothing can be tried
    assert lone.tries == ""
    assert "fitted on a store" in lone.why
