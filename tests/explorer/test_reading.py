"""What a newcomer trips over on a page: late caveats, strips that exaggerate, numbers that a trivial answer beats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from monoseme.core.outcome import Outcome, unknown
from monoseme.explorer.static.charts import curve_chart
from monoseme.explorer.static.numbers import cell, folded, outcome_tile, whisker_domain
from monoseme.explorer.static.overview import overview_page
from monoseme.records import Comparison, Curve, OutcomeGroup, RunRecord
from monoseme.records.page import escape

AXIS = re.compile(r'class="tick end">([^<]+)<')


def test_caveats_stand_under_the_title_and_once(make_record: Callable[..., RunRecord]):
    record = make_record(3)
    page = overview_page(replace(record, notes=(*record.notes, record.notes[0]))).document()
    for note in map(escape, record.notes):
        assert page.count(note) == 1
        assert page.index("<h1>") < page.index(note) < page.index("Sections") < page.index("Numbers")
    assert "notes" not in overview_page(replace(record, notes=())).document()


def test_a_fit_worse_than_the_mean_says_so():
    worse = Outcome("fvu", 1.25, "1", better="lower")
    assert "worse than the mean" in outcome_tile(worse)
    assert "worse than the mean" in cell(worse)
    for fine in (
        replace(worse, value=1.0),
        replace(worse, value=0.2),
        replace(worse, name="l0"),
        unknown("fvu", "1", ""),
    ):
        assert "worse than the mean" not in outcome_tile(fine)
        assert "worse than the mean" not in cell(fine)


def test_strips_start_at_zero_and_need_an_interval():
    near = [Outcome("fvu", 1.324, "1", 1.3, 1.34), Outcome("fvu", 1.337, "1")]
    assert whisker_domain(near) == (0.0, 1.34)
    assert whisker_domain([Outcome("gain", -0.5, "1", -0.6, -0.4), near[0]]) == (-0.6, 1.34)
    assert whisker_domain([replace(near[0], low=None, high=None), near[1]]) is None
    assert whisker_domain([Outcome("dead", 0.0, "share", 0.0, 0.0)] * 2) is None


def test_one_of_something_is_singular():
    tile = outcome_tile(Outcome("fvu", 0.5, "1", n=1, n_unit="groups of samples"))
    assert "over 1 group of samples" in tile
    assert "over 2 documents" in outcome_tile(Outcome("fvu", 0.5, "1", n=2, n_unit="documents"))


def test_a_family_of_zeros_is_one_line():
    zeros = [Outcome(f"stability_share/{t}", 0.0, "share", 0.0, 0.019, note=f"at least {t}") for t in (0.5, 0.7, 0.9)]
    other = Outcome("stability", 0.03, "1")
    tiles, (line,) = folded([other, *zeros])
    assert tiles == [other]
    assert line.startswith("stability share at 0.5, 0.7, 0.9: 0 throughout (95 % interval of each 0 to 0.019).")
    for kept in ([*zeros[:2], replace(zeros[2], value=0.1)], [*zeros[:2], replace(zeros[2], value=None)], zeros[:1]):
        assert folded(kept) == (kept, [])
    page = overview_page(RunRecord("t", "k", outcomes=(OutcomeGroup("S", tuple(zeros)),))).document()
    assert page.count("stability share") == 1


@pytest.mark.parametrize(
    ("y", "ends"), [([0.0, 0.0], ("0", "1")), ([1.0, 1.0], ("0", "1")), ([0.9, 1.0], ("0.9", "1"))]
)
def test_the_axis_of_a_share_stays_between_0_and_1(y: list[float], ends: tuple[str, str]):
    found = AXIS.findall(curve_chart(Curve("dead", [0.0, 1.0], y, "share")))
    assert (found[0], found[-1]) == ends
    assert AXIS.findall(curve_chart(Curve("l0", [0.0, 1.0], [0.0, 0.0])))[0] == "0"


def test_a_wide_table_hints_that_it_scrolls():
    row = ("a", "b", *(Outcome("fvu", 0.5, "1") for _ in range(2)))
    wide = Comparison("Points", ("x", "y", "fvu", "l0"), (row,))
    narrow = Comparison("Points", ("x", "fvu"), (row[1:3],))
    hints = [overview_page(RunRecord("t", "k", comparisons=(table,))).document() for table in (wide, narrow)]
    assert ['class="hint"' in page for page in hints] == [True, False]
