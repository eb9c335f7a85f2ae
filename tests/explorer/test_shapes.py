"""What a block looks like from within, against what was planted in its card and its certificates."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.explorer.serving import ask, served
from tests.explorer.test_certificate_page import made

from monoseme.api.shapes import Shapes, dimensions, walks
from monoseme.api.viewing import live_run
from monoseme.core.cards import BlockCard, Shown
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import rng
from monoseme.evaluation.dimension import RANKS, ranks
from monoseme.explorer.live import LiveRun
from monoseme.explorer.live.certified import verdicts
from monoseme.explorer.static import write_pages
from monoseme.records import RunRecord

pytest.importorskip("python_som", reason="python-som is not installed")
pytest.importorskip("ripser", reason="ripser is not installed")


def ring(n: int = 240, size: int = 3) -> BlockCard:
    """Codes on a circle in a plane of the block; each of its samples shows a sixth of it."""
    stream = rng(0, "ring", n)
    theta = stream.uniform(0, 2 * np.pi, n)
    cloud = np.zeros((n, 3), np.float32)
    cloud[:, :2] = 2 * np.stack([np.cos(theta), np.sin(theta)], 1) + stream.normal(0, 0.05, (n, 2))
    shown = []
    for i in range(6):
        at = 2 * np.pi * (i + np.arange(4) / 4) / 6
        place = np.zeros((8, 3), np.float32)
        place[::2, :2] = 2 * np.stack([np.cos(at), np.sin(at)], 1)
        presence = np.where(np.arange(8) % 2 == 0, 2.0, 0.0).astype(np.float32)
        shown.append(Shown(f"s{i}", (2, 4), presence, place))
    return BlockCard(7, size, (), tuple(shown), cloud)


def test_a_walk_goes_once_around_a_ring_and_shows_what_lies_there() -> None:
    card = ring()
    walk = walks(card)
    assert (walk.topology, walk.why) == ("ring", "")
    assert "loop" in walk.reason
    assert [number.name for number in walk.numbers] == ["quantisation_error", "topographic_error"]
    (way,) = walk.ways
    assert way.closed
    assert len(way.waypoints) == 12
    places = np.array([step.place for step in way.waypoints])
    turns = np.unwrap(np.arctan2(places[:, 1], places[:, 0]))
    assert abs(abs(turns[-1] - turns[0]) - 2 * np.pi * 11 / 12) < 0.4  # the last step lies before the first
    assert abs(np.sign(np.diff(turns)).sum()) == 11
    size = np.sqrt(np.square(card.cloud - card.cloud.mean(0)).sum(1).mean())
    for step in way.waypoints:  # the slow twin: every token of every sample
        away = {
            (i, token): float(np.linalg.norm(item.place[token] - np.array(step.place)))
            for i, item in enumerate(card.shown)
            for token in np.flatnonzero(item.presence)
        }
        nearest = min(away, key=lambda pair: away[pair])
        assert (step.shown, step.token) == nearest
        assert step.away == pytest.approx(away[nearest] / size, rel=2e-3, abs=2e-3)
    assert {step.shown for step in way.waypoints} == set(range(6))
    assert walks(card) == walk  # the same every time


@pytest.mark.parametrize(("size", "topology", "ways"), [(1, "line", 1), (2, "grid", 2)])
def test_lines_are_walked_from_end_to_end_and_grids_along_and_across(size: int, topology: str, ways: int) -> None:
    cloud = np.zeros((200, 3), np.float32)
    cloud[:, :size] = rng(1, "cloud").uniform(-1, 1, (200, size))
    place = np.zeros((4, 3), np.float32)
    place[:, 0] = [-1, -0.3, 0.3, 1]
    card = BlockCard(0, size, (), (Shown("s", (1, 4), np.ones(4, "f4"), place),), cloud)
    walk = walks(card)
    assert walk.topology == topology
    assert [way.closed for way in walk.ways] == [False] * ways
    assert [len(way.waypoints) for way in walk.ways] == [9] * ways
    for way in walk.ways:
        places = np.array([step.place for step in way.waypoints])
        steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
        assert np.linalg.norm(places[-1] - places[0]) > 0.9  # across the whole
        assert steps.max() < 1.6 * steps.min()
        assert not places[:, size:].any()


def test_larger_blocks_are_walked_in_what_can_be_seen_of_them() -> None:
    assert "first 3 principal directions of 8" in walks(ring(size=8)).reason
    assert "principal" not in walks(ring()).reason


def test_no_walk_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = BlockCard(0, 3, (), (), np.zeros((0, 3), np.float32))
    assert walks(dead).why == "It fires on no held-out sample."
    few = replace(ring(), cloud=ring().cloud[:5])
    assert "fires at least 8 times" in walks(few).why
    still = replace(ring(), cloud=np.ones((50, 3), np.float32))
    assert walks(still).why.startswith("No map of its codes: codes must be finite and vary")
    broken = replace(ring(), cloud=np.concatenate([ring().cloud, np.full((3, 3), np.nan, np.float32)]))
    assert walks(broken).topology == "ring"
    monkeypatch.setitem(sys.modules, "ripser", None)
    missing = walks(ring())
    assert (missing.ways, missing.topology) == ([], "")
    assert "monoseme[steering]" in missing.why


def test_dimensions_of_a_small_block_are_those_of_its_cloud_or_of_its_card() -> None:
    card = ring()
    spectrum = np.linalg.svd(card.cloud - card.cloud.mean(0), compute_uv=False).astype(np.float64) ** 2
    wanted = ranks(torch.from_numpy(spectrum)[None])
    found = {outcome.name: outcome for outcome in dimensions(card)}
    assert list(found) == list(RANKS)
    for name, outcome in found.items():
        assert outcome.value == pytest.approx(float(wanted[name][0]), rel=1e-4)
        assert outcome.n == 240
        assert "draw" in outcome.note
    assert found["participation_ratio"].value == pytest.approx(2, abs=0.1)
    own = Outcome("effective_rank", 2.5, "dims")
    mixed = {outcome.name: outcome for outcome in dimensions(replace(card, outcomes=(own,)))}
    assert mixed["effective_rank"] is own
    assert mixed["utilisation"].value == found["utilisation"].value


def test_dimensions_that_nobody_can_know_say_why() -> None:
    def why(card: BlockCard) -> set[str]:
        assert {outcome.value for outcome in dimensions(card)} == {None}
        return {outcome.note for outcome in dimensions(card)}

    assert why(ring(size=8)) == {"only 3 of its 8 directions are kept: make its pages anew"}
    assert why(replace(ring(), cloud=ring().cloud[:4])) == {"4 of its rows are kept; 6 are needed"}
    assert why(replace(ring(), cloud=np.ones((50, 3), np.float32))) == {"its codes do not vary"}
    assert [outcome.name for outcome in dimensions(ring(size=1))] == ["effective_rank"]


def test_certificates_are_those_of_the_block() -> None:
    table = made(600)
    columns = table.features
    for block in (3, 5, 599):
        found = verdicts(table, block)
        assert [v.feature for v in found] == np.flatnonzero(columns.block == block).tolist()
        for v in found:
            values = {n.name: n for n in v.numbers}
            assert values["Removable loss"].value == columns.removable_loss[v.feature]
            assert v.reason == columns.why[v.feature]
            assert v.partners == list(dict.fromkeys(columns.partners_of(v.feature)))[:12]
            strain = columns.strain[v.feature]
            assert values["Strain κ"].value == (strain if math.isfinite(strain) else None)
    assert verdicts(table, 10_000) == []
    whole = {v.verdict for block in range(600) for v in verdicts(table, block)}
    assert whole == {"stable", "unstable", "unknown"}
    assert any(n.note == "infinite" for block in range(600) for v in verdicts(table, block) for n in v.numbers)


def test_a_run_shows_the_certificates_that_were_kept_with_it(
    tmp_path: Path, make_record: Callable[..., RunRecord]
) -> None:
    record = make_record(4)
    record.save(tmp_path)
    write_pages(record, tmp_path / "pages")

    def shape(block: int) -> dict[str, Any]:
        with served([live_run(tmp_path, models=False)]) as at:
            answer, content = ask(at, f"/api/runs/0/blocks/{block}/shape")
        assert answer.status == 200
        return json.loads(content)

    assert shape(1)["verdicts"] == []
    assert "monoseme optimality certify" in shape(1)["uncertified"]
    made(3).save(tmp_path)
    assert [v["feature"] for v in shape(1)["verdicts"]] == [1]
    assert shape(1)["uncertified"] == ""
    assert "do not name this block" in shape(3)["uncertified"]
    (tmp_path / "certificates.json").write_text("{")
    damaged = shape(1)
    assert damaged["verdicts"] == []
    assert "certificates.json" in damaged["uncertified"]
    assert damaged["dimension"]


def test_shapes_are_measured_once_and_only_of_blocks_that_are_there() -> None:
    shapes = Shapes(RunRecord("t", "fit", cards=(ring(),)), uncertified="None.")
    first = shapes(7)
    assert shapes(7) is first
    assert shapes(8) is None
    assert first is not None
    assert first.uncertified == "None."
    assert LiveRun(RunRecord("t", "fit"), Path()).shape is None
