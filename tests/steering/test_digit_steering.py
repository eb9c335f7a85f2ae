"""The comparison on digits end to end on a model trained for a few steps, and its parts on codes made by hand."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.core.seeds import rng
from monoseme.featurizers import Grassmannian
from monoseme.learning import SweepResult, sweep
from monoseme.papers.bsf import digit_steering as d
from monoseme.papers.bsf import walked_digits
from monoseme.papers.bsf.digit_films import write_digit_pages
from monoseme.papers.bsf.tuned import tuned

SMALL = {"wanted": dict.fromkeys(d.ATTRIBUTES, 1e-3), "choose": 16, "tune": 4, "judge": 4, "candidates": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """One attribute, one fit, tiny sizes."""
    out = tmp_path_factory.mktemp("digits")
    d.trained(out / "model", 4, samples=128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walked_digits, "protocol", lambda: SMALL)
        patch.setattr(walked_digits, "tuned", functools.partial(tuned, steps=4))
        patch.setattr(walked_digits, "FITTED", 2100)
        patch.setattr(walked_digits, "HELD", 400)
        fn = functools.partial(walked_digits.measure, work=str(out))
        return sweep(fn, [{"attribute": "hue", "draw": 0}], out / "steered-digits")


def test_every_kind_is_judged(run: SweepResult) -> None:
    row = run.rows[0]
    assert row.status == "done", row.error
    for kind in walked_digits.KINDS:
        assert {f"{kind} {what}" for what in ("way", "r2", "strength", "target", "off", "reached")} <= set(row.numbers)
    assert "latent - block" in row.numbers


def test_the_page_shows_each_kind_beside_the_others(run: SweepResult, tmp_path: Path) -> None:
    index = write_digit_pages(run, tmp_path)
    assert "Moving the hue" in index.read_text()
    film = json.loads((tmp_path / "record.json").read_text())["films"][0]
    assert [row["label"] for row in film["rows"]] == list(walked_digits.KINDS)
    assert film["frames"] == len(walked_digits.FRACTIONS)


def test_the_unit_that_foretells_is_found_and_its_code_goes_up() -> None:
    stream = rng(0, "foretelling")
    means, wanted = stream.normal(size=(200, 5, 2)), stream.normal(size=(200, 1))
    means[:, 3, 1] = -wanted[:, 0] + 0.1 * stream.normal(size=200)
    means[:, 4] = 0  # never fires
    best = d.foretelling(means, wanted, 2)
    assert best[0][0] == 3
    assert best[0][1] > 0.95
    assert best[0][2][1] < 0  # more of the attribute is less of this coordinate
    assert 4 not in [one[0] for one in d.foretelling(means, wanted, 9)]


def test_an_attribute_that_does_not_vary_is_refused() -> None:
    check_refused(lambda: d.foretelling(np.ones((9, 2, 1)), np.full((9, 1), 0.3), 1), "wanted")


def test_half_a_turn_of_rotation_and_a_whole_hue_are_no_change() -> None:
    before = {"rotation": np.array([0.1]), "hue": np.array([0.95])}
    after = {"rotation": np.array([0.1 + np.pi]), "hue": np.array([0.05])}
    assert d.change(before, after, "rotation")[0] == pytest.approx(0, abs=1e-12)
    assert d.change(before, after, "hue")[0] == pytest.approx(0.1)


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_a_walk_on_a_line_goes_where_the_attribute_is_larger(sense: float) -> None:
    stream = rng(0, "line")
    codes = np.zeros((400, 3))
    codes[:, 0] = stream.uniform(0, 1, 400)
    f = Grassmannian(6, 2, 3, k=1)
    way = walked_digits.walks_of(f, 0, codes, "line", np.array([sense, 0.0, 0.0]), 0.9)
    now = torch.tensor([[0.5, 0.0, 0.0]], dtype=torch.float64)
    moved = way.moves(0.2)["to"](now)
    assert float(moved[0, 0] - 0.5) * sense > 0.05
