"""The pages without a browser: what is in them, and that nothing in a record can become markup or leave the folder."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome, unknown
from monoseme.explorer.static import write_claims, write_pages
from monoseme.explorer.static.charts import curve_chart, histogram_chart, log_ticks, ticks
from monoseme.explorer.static.numbers import cell, figure, outcome_tile
from monoseme.explorer.static.overview import overview_page
from monoseme.explorer.static.shards import pack_cloud, pack_shown, script
from monoseme.records import (
    Claims,
    Comparison,
    Curve,
    FilmStrip,
    Histogram,
    OutcomeGroup,
    RunRecord,
    SampleView,
    Scatter,
    ScatterPoint,
    reproduce,
)
from monoseme.records.page import tag

EVIL = "<script>alert(1)</script>\"'&\ud800"


class Outline(HTMLParser):
    """Tags, links and text of a page; unclosed or crossed elements fail."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        assert not [key for key, _ in attrs if key.startswith("on") or key == "style"]
        if tag not in ("meta", "link", "img", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read_script(path: Path, call: str) -> object:
    """The last value that a data file hands over."""
    text = path.read_text(encoding="ascii")
    match = re.fullmatch(rf"monoseme\.{call}\((?:\d+,)?(.*)\);\n", text, re.S)
    assert match, text[:80]
    return json.loads(match[1])


@pytest.mark.parametrize(("size", "grid"), [(1, (4, 4)), (2, (4, 4)), (3, (3, 5)), (16, (4, 4)), (3, (1, 9))])
def test_pages_of_every_block_size_and_grid(
    tmp_path: Path, make_record: Callable[..., RunRecord], size: int, grid: tuple[int, int]
):
    record = make_record(20, size, grid)
    index = write_pages(record, tmp_path / "pages")
    outline = Outline(index.read_text(encoding="utf-8"))
    assert {"h1", "nav", "main", "table", "svg", "form"} <= set(outline.tags)
    Outline((tmp_path / "pages" / "block.html").read_text(encoding="utf-8"))
    data = read_script(tmp_path / "pages" / "data" / "index.js", "index")
    assert isinstance(data, dict)
    assert data["blocks"] == list(range(20))
    first = read_script(tmp_path / "pages" / "data" / "0.js", "add")
    second = read_script(tmp_path / "pages" / "data" / "1.js", "add")
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert [card[0] for card in first["cards"] + second["cards"]] == list(range(20))
    assert [tuple(item[1:3]) for item in first["cards"][0][3]] == [grid] * 8


def test_only_relative_links_and_no_inline_code(tmp_path: Path, make_record: Callable[..., RunRecord]):
    write_pages(make_record(3), tmp_path / "pages")
    for page in (tmp_path / "pages").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "default-src &#x27;none&#x27;" in text
        for link in Outline(text).links:
            assert re.fullmatch(r"data:,|[\w./]*(#[\w-]+)?", link), link
            if link.endswith((".js", ".css")):
                assert (tmp_path / "pages" / link).is_file()
        assert "http" not in text.replace("http-equiv", "")
    for asset in (tmp_path / "pages").glob("*.js"):
        assert not re.search(r"https?:|fetch\(|innerHTML|eval\(|XMLHttp", asset.read_text(encoding="utf-8")), asset


def evil_record() -> RunRecord:
    bad = Outcome(EVIL, 1.0, EVIL, n=1, n_unit=EVIL, note=EVIL)
    shown = Shown(EVIL, (1, 2), np.ones(2, "f4"), np.ones((2, 3), "f4"))
    return RunRecord(
        title=EVIL,
        kind=EVIL,
        facts={EVIL: EVIL},
        outcomes=(OutcomeGroup(EVIL, (bad, unknown(EVIL, EVIL, EVIL)), EVIL),),
        comparisons=(Comparison(EVIL, (EVIL, EVIL), ((EVIL, bad),), EVIL),),
        curves=(Curve(EVIL, [0.0, 1.0], [1.0, 2.0], EVIL, EVIL, EVIL),),
        histograms=(Histogram(EVIL, [0.0, 1.0], [1], EVIL, counted=EVIL, aside={EVIL: 1}),),
        cards=(BlockCard(0, 3, (bad,), (shown,), np.ones((2, 3), "f4")),),
        samples={EVIL: SampleView(tokens=(EVIL, EVIL), label=EVIL)},
        notes=(EVIL,),
        scatters=(Scatter(EVIL, (EVIL,), (ScatterPoint(EVIL, EVIL, (bad,), EVIL),), EVIL, EVIL, EVIL),),
        films=(FilmStrip(EVIL, ((EVIL, np.zeros((2, 3, 4, 3), np.uint8)),), EVIL),),
    )


def test_no_text_becomes_markup(tmp_path: Path):
    write_pages(evil_record(), tmp_path / "pages", lambda sample: np.zeros((4, 4, 3), np.uint8))
    for path in (tmp_path / "pages").rglob("*"):
        if path.suffix in (".html", ".js"):
            assert "<script>alert" not in path.read_text(encoding="utf-8")
    outline = Outline((tmp_path / "pages" / "index.html").read_text(encoding="utf-8"))
    assert outline.tags.count("script") == 6
    assert [p.name for p in (tmp_path / "pages" / "pictures").iterdir()] == ["0.jpg"]


def test_links_out_of_the_folder_are_refused():
    for link in ("https://x.org", "//x.org", "/etc", "../x", "javascript:alert(1)"):
        with pytest.raises(UserError, match="link must be a relative path"):
            tag("a", "x", href=link)


def test_record_with_nothing_in_it(tmp_path: Path):
    index = write_pages(RunRecord("Empty", "featurizer"), tmp_path / "pages")
    text = index.read_text(encoding="utf-8")
    Outline(text)
    assert "Parts" not in text
    assert not (tmp_path / "pages" / "block.html").exists()


def test_numbers_that_are_not_known_say_why():
    assert "no rows" in outcome_tile(unknown("dead", "share", "no rows"))
    assert "nan" not in outcome_tile(Outcome("fvu", math.nan, "share", math.nan, math.nan, note="diverged"))
    assert "diverged" in cell(Outcome("fvu", math.nan, "share", note="diverged"))
    assert "not computed" in cell(unknown("x", "1", "not computed"))
    assert "nan" not in outcome_tile(Outcome("fvu", 0.5, "share", math.nan, math.nan))
    tile = outcome_tile(Outcome("fvu", 0.5, "share", 0.4, 0.6, better="lower", n=9, n_unit="pictures"))
    for part in ("0.5", "share", "0.4 to 0.6", "95 %", "9 pictures", "lower is better"):
        assert part in tile


def test_points_that_are_not_finite_are_left_out_of_charts():
    chart = curve_chart(Curve("loss", [0.0, 1.0, 2.0, 3.0], [1.0, math.nan, math.inf, -1.0], log_y=True))
    assert "over 1 point" in chart
    assert "no points" in curve_chart(Curve("loss", [], []))
    for y in ([0.0, 0.0], [-3.0, -3.0], [5.0, 5.0]):
        assert "nan" not in curve_chart(Curve("flat", [0.0, 1.0], y))


def test_long_curves_keep_their_extremes_and_stay_small():
    y = np.sin(np.arange(100_000) / 3.0)
    y[77_777] = 40.0
    chart = curve_chart(Curve("loss", np.arange(100_000).tolist(), y.tolist()))
    assert len(chart) < 30_000
    line = re.search(r'points="([^"]+)"', chart)
    assert line
    heights = [float(point.split(",")[1]) for point in line[1].split()]
    assert min(heights) < 30 < 150 < sorted(heights)[1]


def test_histogram_says_what_it_counts():
    chart = histogram_chart(Histogram("density", [-2, -1, 0], [3, 4], "share", True, "blocks", {"never active": 2}))
    assert "9 blocks, 2 never active" in chart
    assert "0.01 to 0.1: 3 blocks" in chart
    assert "nan" not in histogram_chart(Histogram("density", [0.0, 1.0], [0]))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 7.9), (0, 40_000), (1e-9, 2e-9), (5, 5), (-1e6, 1e6)])
def test_ticks_are_round_few_and_inside(low: float, high: float):
    values = ticks(low, high)
    assert 1 <= len(values) <= 8
    assert all(low - 1e-12 <= v <= high + 1e-12 for v in values)
    assert all(len(figure(v)) <= 10 for v in values)
    assert 1 <= len(log_ticks(-7.0, 0.0)) <= 8


def test_presence_and_place_are_packed_as_the_paper_draws_them(make_shown: Callable[..., Shown]):
    item = make_shown(5, 0, 3, "s", (16, 16))
    most = float(item.presence.max())
    table = np.frombuffer(base64.b64decode(pack_shown(item, most)), np.uint8).reshape(-1, 6)
    active = np.flatnonzero(item.presence)
    np.testing.assert_array_equal(table[:, :2].astype(int) @ [1, 256], active)
    np.testing.assert_allclose(table[:, 2] / 255, item.presence[active] / most, atol=0.5 / 255 + 1e-6)
    unit = item.place[active] / np.linalg.norm(item.place[active], axis=1, keepdims=True)
    np.testing.assert_allclose(table[:, 3:] / 255, 0.5 + 0.5 * unit, atol=0.5 / 255 + 1e-6)


def test_packing_of_nothing_and_of_broken_numbers():
    assert pack_shown(Shown("s", (2, 2), np.zeros(4, "f4"), np.zeros((4, 3), "f4")), 0.0) == ""
    still = Shown("s", (1, 2), np.array([1e-9, 2], "f4"), np.zeros((2, 3), "f4"))
    table = np.frombuffer(base64.b64decode(pack_shown(still, 2.0)), np.uint8).reshape(-1, 6)
    np.testing.assert_array_equal(table[:, 2:], [[1, 128, 128, 128], [255, 128, 128, 128]])
    scale, text = pack_cloud(np.array([[1, 0, -2], [np.nan, 0, 0]], "f4"))
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(text), "<i2"), [16384, 0, -32767])
    assert scale == 2.0
    assert pack_cloud(np.zeros((0, 3), "f4")) == [0.0, ""]
    with pytest.raises(UserError, match="shown must have at most 65,536 tokens"):
        pack_shown(Shown("s", (1, 70_000), np.ones(70_000, "f4"), np.zeros((70_000, 3), "f4")), 1.0)


def test_script_data_cannot_end_its_script():
    text = script("add", {"x": "</script>\u2028" + EVIL})
    assert "<" not in text
    assert text.isascii()


def test_a_folder_that_is_not_ours_is_not_touched(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="out must be a new folder"):
        write_pages(RunRecord("t", "k"), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_pages_are_replaced_as_a_whole_and_a_failure_keeps_the_old(
    tmp_path: Path, make_record: Callable[..., RunRecord]
):
    out = tmp_path / "pages"
    write_pages(make_record(20), out)
    assert (out / "data" / "1.js").exists()
    write_pages(make_record(3), out)
    assert not (out / "data" / "1.js").exists()
    with pytest.raises(UserError, match="thumbnails must give files that exist"):
        write_pages(make_record(2), out, tmp_path)
    assert len(read_script(out / "data" / "index.js", "index")["blocks"]) == 3  # pyright: ignore
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pages"]


def test_thumbnails_from_a_folder(tmp_path: Path, make_picture: Callable[..., np.ndarray]):
    from PIL import Image

    (tmp_path / "thumbnails").mkdir()
    Image.fromarray(make_picture("a", 32)).save(tmp_path / "thumbnails" / "a.png")
    (tmp_path / "thumbnails" / "b.png").write_text("<svg onload=alert(1)>")
    (tmp_path / "outside").mkdir()
    Image.fromarray(make_picture("b", 32)).save(tmp_path / "outside" / "c.png")
    (tmp_path / "thumbnails" / "c.png").symlink_to(tmp_path / "outside" / "c.png")

    def record(name: str) -> RunRecord:
        shown = Shown("s", (1, 1), np.ones(1, "f4"), np.ones((1, 3), "f4"))
        card = BlockCard(0, 3, (), (shown,), np.zeros((0, 3), "f4"))
        return RunRecord("t", "k", cards=(card,), samples={"s": SampleView(name)})

    write_pages(record("thumbnails/a.png"), tmp_path / "pages", tmp_path)
    assert (tmp_path / "pages" / "pictures" / "0.png").read_bytes().startswith(b"\x89PNG")
    write_pages(record(""), tmp_path / "pages", lambda sample: tmp_path / "thumbnails" / "a.png")
    assert (tmp_path / "pages" / "pictures" / "0.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"\(height, width, 3\) uint8"):
        write_pages(record(""), tmp_path / "pages", lambda sample: np.zeros((2, 2), np.float32))
    with pytest.raises(UserError, match="thumbnails must give JPEG"):
        write_pages(record("thumbnails/b.png"), tmp_path / "pages", tmp_path)
    with pytest.raises(UserError, match="picture must be a picture inside"):
        write_pages(record("c.png"), tmp_path / "pages", tmp_path / "thumbnails")


def test_weight_of_a_thousand_blocks(tmp_path: Path, make_record: Callable[..., RunRecord]):
    write_pages(make_record(1000), tmp_path / "pages")
    at_once = [p for p in (tmp_path / "pages").iterdir() if p.is_file()] + [tmp_path / "pages" / "data" / "index.js"]
    assert sum(p.stat().st_size for p in at_once) < 500_000
    assert max(p.stat().st_size for p in (tmp_path / "pages" / "data").iterdir()) < 200_000


def test_claims_page(tmp_path: Path):
    (tmp_path / "claims.toml").write_text(
        """
paper = "toy"
title = "<b>"
source = "arXiv"
[[claim]]
id = "a"
where = "Table 1"
says = "<script>alert(1)</script>"
quantity = "q"
stated = "0.95"
accept = [{ kind = "at_least", value = 0.9 }]
seeds = [0]
hardware = "2 cores"
cost = "1 minute"
stand_in = true
reason = "another model"
"""
    )
    result = reproduce(
        Claims.load(tmp_path / "claims.toml"), lambda ids, out: {"q": Outcome("q", 0.95, "1")}, tmp_path / "out"
    )
    text = write_claims(result, tmp_path / "pages").read_text(encoding="utf-8")
    assert Outline(text).tags.count("script") == 0
    for part in ("stand-in", "another model", "q at least 0.9", "The paper gives 0.95", result.plan):
        assert part in text


def test_overview_is_a_pure_function_of_the_record(make_record: Callable[..., RunRecord]):
    assert overview_page(make_record(4)).document() == overview_page(make_record(4)).document()


def test_the_first_facts_stand_under_the_title_with_their_names(make_record: Callable[..., RunRecord]):
    record = replace(make_record(), facts={"Trained on": "90 rows of 9 samples", "Held out": "10 rows of 1 sample"})
    page = overview_page(record).document()
    assert "Trained on: <span>90 rows of 9 samples</span> · Held out: <span>10 rows of 1 sample</span>" in page


def test_points_become_data_with_holes_for_what_is_not_known(tmp_path: Path):
    known = Outcome("fvu", 0.2, "1", 0.1, 0.3, better="lower")
    points = (
        ScatterPoint("a", "k 4", (known, Outcome("k", 4.0, "")), "s", ((0.1, 0.3), (4.0, 4.0))),
        ScatterPoint("b", "k 8", (unknown("fvu", "1", "failed"), Outcome("k", math.inf, ""))),
    )
    record = RunRecord("t", "sweep", scatters=(Scatter("S", ("fvu", "k"), points, "k", "fvu"),))
    text = write_pages(record, tmp_path / "pages").read_text(encoding="utf-8")
    assert "Parts" not in text
    outline = Outline(text)
    assert outline.tags.count("select") == 2
    assert [link for link in outline.links if link.endswith(".js")] == ["page.js", "scatter.js", "data/scatters.js"]
    data = read_script(tmp_path / "pages" / "data" / "scatters.js", "scatter")
    assert isinstance(data, dict)
    assert data["columns"][0] == {"name": "fvu", "unit": "", "better": "lower"}
    assert data["series"] == ["a", "b"]
    assert [p["values"] for p in data["points"]] == [
        [[0.2, 0.1, 0.3], [4, None, None]],
        [[None, None, None], [None, None, None]],
    ]
    assert [p["seeds"] for p in data["points"]] == [[[0.1, 0.3], [4, 4]], []]


def test_tables_of_three_rows_can_be_sorted(tmp_path: Path):
    rows = tuple((str(i), Outcome("x", i / 3, "1")) for i in range(3))
    for count in (2, 3):
        record = RunRecord("t", "sweep", comparisons=(Comparison("c", ("i", "x"), rows[:count]),))
        text = write_pages(record, tmp_path / f"{count}").read_text(encoding="utf-8")
        assert ("tables.js" in text) == ("<button" in text) == (count == 3)
    assert f'data-value="{1 / 3!r}"' in text
