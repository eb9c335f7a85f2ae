"""The cascade's band against a loop over all bands, and what a cascade must not lose, believe or mix up."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from torch import Tensor

from monoseme.composition.judges import CascadeJudge, EndpointJudge, PixelJudge, Verdict, band
from monoseme.composition.judges.protocol import identity
from monoseme.core.seeds import rng

REFERENCE = torch.zeros(2, 2, 3)


def greys(values: list[float]) -> Tensor:
    return torch.tensor(values)[:, None, None, None].expand(-1, 2, 2, 3).contiguous()


class Ruled:
    """Reads the grey of a picture and answers by a rule."""

    def __init__(self, rule: Callable[[float], Verdict], batch: int = 4) -> None:
        self.rule, self.batch, self.about, self.calls = rule, batch, {"judge": "ruled"}, list[int]()

    def judge(self, pictures: Tensor) -> list[Verdict]:
        self.calls.append(len(pictures))
        return [self.rule(value) for value in pictures[:, 0, 0, 0].double().tolist()]


def verdicts(scores: list[float], threshold: float = 0.45, rising: bool = True) -> list[Verdict]:
    return [Verdict("yes" if (score > threshold) == rising else "no", score) for score in scores]


def by_loop(first: list[Verdict], wanted: list[bool], error: float) -> tuple[float, float]:
    """Every pair of cuts between different scores: those that keep both promises, the narrowest on each side."""
    rows = [(one.score or 0.0, one.answer == "yes", good) for one, good in zip(first, wanted, strict=True)]
    levels = sorted({score for score, _, _ in rows})
    cuts = [-np.inf, *[(a + b) / 2 for a, b in itertools.pairwise(levels)], np.inf]

    def keeps(side: list[tuple[float, bool, bool]]) -> bool:
        one_answer = len({yes for _, yes, _ in side}) <= 1
        return one_answer and sum(yes != good for _, yes, good in side) <= error * len(side)

    low = max(cut for cut in cuts if keeps([row for row in rows if row[0] < cut]))
    high = min(cut for cut in cuts if keeps([row for row in rows if row[0] > cut]))
    return low, high


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_band_is_that_of_a_loop(seed: int, rising: bool) -> None:
    draw = rng(seed, "band")
    scores = np.round(draw.random(30), 1).tolist()  # with ties
    scores[:2] = [0.0, 1.0]
    first = verdicts(scores, rising=rising)
    wanted = [bool((s + draw.normal(0, 0.3) > 0.5) == rising) for s in scores]
    wanted[0], wanted[1] = True, False
    for error in (0.0, 0.1, 0.3):
        assert band(first, wanted, error) == pytest.approx(by_loop(first, wanted, error))


def test_no_doubt_leaves_one_point_where_the_answer_turns() -> None:
    assert band(verdicts([0.1, 0.2, 0.8, 0.9]), [False, False, True, True]) == pytest.approx((0.5, 0.5))


def test_a_judge_whose_low_scores_mean_yes_gets_a_band_too() -> None:
    """The measure of a pixel judge is a distance."""
    pictures = greys([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    cheap, costly = PixelJudge(REFERENCE, 0.25), PixelJudge(REFERENCE, 0.35)
    wanted = [one.answer == "yes" for one in costly.judge(pictures)]
    low, high = band(cheap.judge(pictures), wanted, 0.0)
    assert (low, high) == pytest.approx((0.25, 0.35))
    found = CascadeJudge(cheap, costly, low, high).judge(pictures)
    assert [one.answer == "yes" for one in found] == wanted


def test_the_band_holds_the_cheap_judges_own_threshold() -> None:
    """Scores can part the costly judge's answers where the cheap judge's own threshold does not."""
    values = [i / 20 for i in range(20)]
    cheap, costly = (Ruled(lambda x, t=t: Verdict("yes" if x > t else "no", x)) for t in (0.33, 0.73))
    wanted = [value > 0.73 for value in values]
    judge = CascadeJudge(cheap, costly, *band(cheap.judge(greys(values)), wanted))
    assert [one.answer == "yes" for one in judge.judge(greys(values))] == wanted
    assert (judge.low, judge.high) == pytest.approx((0.325, 0.725))


def test_a_tie_with_both_answers_lies_in_the_band() -> None:
    first = [Verdict("no", 0.0), Verdict("no", 0.5), Verdict("yes", 0.5), Verdict("yes", 1.0)]
    low, high = band(first, [False, False, True, True])
    assert low < 0.5 < high


def test_what_has_no_score_or_answer_moves_no_end() -> None:
    first = verdicts([0.1, 0.2, 0.8, 0.9])
    odd = [Verdict("unsure", 0.0), Verdict("invalid", 1.0), Verdict("yes"), Verdict("yes", math.nan)]
    odd += [Verdict("yes", -math.inf)]
    wanted = [False, False, True, True]
    assert band([*first, *odd], [*wanted, True, False, False, False, False]) == band(first, wanted)


def test_a_score_that_is_no_number_is_in_doubt() -> None:
    cheap = Ruled(lambda _: Verdict("yes", math.nan))
    judge = CascadeJudge(cheap, Ruled(lambda _: Verdict("no", None, "saw it")), 0.4, 0.6)
    assert [one.answer for one in judge.judge(greys([0.0, 1.0]))] == ["no", "no"]
    assert judge.sent == 2


def test_a_cascade_is_judged_in_the_costly_judges_batches() -> None:
    """What is judged at once is lost when a run is killed, and paid again."""
    costly = EndpointJudge("a face", "http://127.0.0.1:1/v1")
    assert CascadeJudge(PixelJudge(REFERENCE, 0.1), costly, 0.0, 1.0).batch == 1
    second = Ruled(lambda _: Verdict("no"), batch=2)
    CascadeJudge(Ruled(lambda x: Verdict("yes", x)), second, 0.0, 1.0).judge(greys([0.1] * 5))
    assert second.calls == [2, 2, 1]


def test_the_identity_names_judges_and_band_to_the_last_digit() -> None:
    a, b = PixelJudge(REFERENCE, 0.1), PixelJudge(REFERENCE + 1, 0.1)
    ends = [(-math.inf, math.inf), (-math.inf, 1e-12), (0.0, 1e-12), (0.0, 2e-12)]
    judges = [CascadeJudge(x, y, *end) for x in (a, b) for y in (a, b) for end in ends]
    assert len({identity(judge) for judge in judges}) == 16
    for judge in judges:
        json.dumps(dict(judge.about), allow_nan=False)


def test_no_pictures_are_no_verdicts() -> None:
    judge = CascadeJudge(PixelJudge(REFERENCE, 0.1), PixelJudge(REFERENCE, 0.2), 0.0, 1.0)
    assert judge.judge(torch.zeros(0, 2, 2, 3)) == []
    assert (judge.sent, judge.seen) == (0, 0)


TWO = verdicts([0.1, 0.9])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: CascadeJudge(PixelJudge(REFERENCE, 0.1), PixelJudge(REFERENCE, 0.1), math.nan, 1.0), "low and high"),
        (lambda: band(TWO, [True, True]), "wanted"),
        (lambda: band(TWO, [True]), "wanted"),
        (lambda: band([], []), "wanted"),
        (lambda: band(TWO, [True, False], 0.5), "error"),
        (lambda: band(TWO, [True, False], math.nan), "error"),
        (lambda: band(verdicts([0.8, 0.9]), [True, False]), "first"),
        (lambda: band([Verdict("yes"), Verdict("no")], [True, False]), "first"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, f"{word} must")
