"""Drift against the step: each point is the score at that step; steps ascend."""

from __future__ import annotations

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.composition import Delta, emc2, scene
from monoseme.composition.drift import drift
from monoseme.composition.judges import PixelJudge, ReplayJudge


def test_every_point_is_the_score_at_that_step(tmp_path) -> None:
    genome = scene("butterfly")
    judge = PixelJudge(genome.render(24).float(), 0.08)
    found = drift(genome, judge, (0.1, 0.5, 2.0), size=24, sample=25, out=tmp_path)
    for one in found:
        alone = emc2(genome, judge, Delta("absolute", one.delta), size=24, sample=25)
        assert one.score == alone.score
        changes = [w.change for w in alone.per_weight]
        assert one.change == pytest.approx(tuple(np.quantile(changes, [0.1, 0.5, 0.9])))
        assert one.judged == pytest.approx(one.change, abs=3e-3)  # this judge's score is the change, in eight bits
    assert found[0].change[1] < found[1].change[1]
    (kept,) = tmp_path.glob("verdicts-*.jsonl")
    replayed = drift(genome, ReplayJudge(kept), (0.1, 0.5), size=24, sample=25)
    assert [one.score.value for one in replayed] == [one.score.value for one in found[:2]]


def test_wrong_steps() -> None:
    genome = scene("face")
    judge = PixelJudge(genome.render(16).float(), 0.08)
    check_refused(lambda: drift(genome, judge, ()), "deltas")
    check_refused(lambda: drift(genome, judge, (0.3, 0.1)), "deltas")
    check_refused(lambda: drift(genome, judge, (0.1,), kind="far"), "kind")
