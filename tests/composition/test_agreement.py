"""Agreement of judges against scikit-learn, plain sums and plain resampling, and where little can be said."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.composition.agreement import agreement, cohen, fleiss
from monoseme.composition.judges.protocol import Verdict
from monoseme.core.seeds import rng

WORDS: dict[str, Any] = {"y": "yes", "n": "no", "u": "unsure", "i": "invalid"}


def said(words: str) -> list[Verdict]:
    """y, n, u, i: one letter a picture."""
    return [Verdict(WORDS[letter]) for letter in words]


def drawn(seed: int, n: int = 60, judges: int = 2) -> list[str]:
    draw = rng(seed, "test")
    truth = draw.choice(list("ynu"), n, p=[0.5, 0.35, 0.15])
    return ["".join(np.where(draw.random(n) < 0.6, truth, draw.choice(list("ynu"), n)).tolist()) for _ in range(judges)]


def plain_fleiss(rows: list[tuple[str, ...]]) -> float:
    """As in the paper, sum by sum."""
    n, m = len(rows), len(rows[0])
    counts = [Counter(row) for row in rows]
    per_picture = [sum(c * (c - 1) for c in one.values()) / (m * (m - 1)) for one in counts]
    chance = sum((x / (n * m)) ** 2 for x in sum(counts, Counter()).values())
    return (sum(per_picture) / n - chance) / (1 - chance)


@pytest.mark.parametrize("judges", [2, 3, 5])
def test_kappas_against_scikit_learn_and_a_plain_sum(judges: int) -> None:
    from sklearn.metrics import cohen_kappa_score, confusion_matrix

    columns = drawn(judges, judges=judges)
    found = agreement({str(i): said(column) for i, column in enumerate(columns)})
    assert found.fleiss.value == pytest.approx(plain_fleiss(list(zip(*columns, strict=True))), abs=1e-12)
    assert len(found.kappa) == judges * (judges - 1) // 2
    for (i, j), kappa in found.kappa.items():
        a, b = list(columns[int(i)]), list(columns[int(j)])
        assert kappa.value == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)
        np.testing.assert_array_equal(found.table[i, j], confusion_matrix(a, b, labels=list("ynu")))


def test_tables_worked_out_by_hand() -> None:
    # 20 both yes, 5 and 10 apart, 15 both no: observed 0.7, chance 0.5
    assert cohen(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)
    # three judges, two pictures: pairs agree on all and a third; four of six say yes, so chance is 5/9
    three = agreement({"a": said("yn"), "b": said("yn"), "c": said("yy")})
    assert three.fleiss.value == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))
    assert fleiss(np.array([[3, 0], [1, 2]])) == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))


def test_intervals_are_those_of_pictures_drawn_again() -> None:
    from sklearn.metrics import cohen_kappa_score

    columns = [np.array(list(column)) for column in drawn(3, judges=3)]
    found = agreement({name: said("".join(c)) for name, c in zip("abc", columns, strict=True)})
    draw = rng(1, "test")
    pairs, all_ = [], []
    for _ in range(600):
        again = draw.integers(0, 60, 60)
        a, b, c = (column[again] for column in columns)
        pairs.append(cohen_kappa_score(a, b))
        all_.append(plain_fleiss(list(zip(a, b, c, strict=True))))
    for outcome, plain in ((found.kappa["a", "b"], pairs), (found.fleiss, all_)):
        low, high = np.quantile(plain, [0.025, 0.975])
        assert outcome.low == pytest.approx(low, abs=0.04)
        assert outcome.high == pytest.approx(high, abs=0.04)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Judges that are right with 0.85 each about a fair coin: κ = 4 · 0.35² = 0.49."""
    draw, hits = rng(0, "test"), 0
    for _ in range(200):
        truth = draw.random(120) < 0.5
        columns = [np.where(draw.random(120) < 0.85, truth, ~truth) for _ in range(2)]
        a, b = ("".join("y" if x else "n" for x in column.tolist()) for column in columns)
        found = agreement({"a": said(a), "b": said(b)}).kappa["a", "b"]
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.49 <= found.high
    assert 0.89 <= hits / 200 <= 0.99


def test_full_agreement_has_no_interval() -> None:
    """Resamples of equal answers are equal answers: [1, 1] would say that four pictures prove it."""
    found = agreement({"a": said("ynyn"), "b": said("ynyn"), "c": said("ynyn")})
    for kappa in (found.kappa["a", "b"], found.fleiss):
        assert kappa.value == 1
        assert kappa.low is None
        assert "no resample would differ" in kappa.note
    low = found.observed["a", "b"].low
    assert low is not None
    assert low < 0.6


def test_resamples_without_kappa_are_counted() -> None:
    rare = agreement({"a": said("y" * 9 + "n"), "b": said("y" * 8 + "nn")}).kappa["a", "b"]
    assert "of 1000 resamples have one answer only" in rare.note
    assert rare.low is not None
    rarer = agreement({"a": said("yn"), "b": said("yy")}).kappa["a", "b"]
    assert rarer.value == 0
    assert agreement({"a": said("y"), "b": said("n")}).kappa["a", "b"].note == "no interval: one picture"


@pytest.mark.parametrize("answer", ["y", "n", "u"])
def test_one_answer_only_has_no_kappa(answer: str) -> None:
    found = agreement({name: said(answer * 9) for name in "abc"})
    for kappa in (found.kappa["a", "b"], found.fleiss):
        assert kappa.value is None
        assert kappa.note == "every answer is the same"
    assert "not known" in found.text()


def test_no_picture_is_not_known() -> None:
    for judges in ({"a": said(""), "b": said("")}, {"a": said("iy"), "b": said("yi"), "c": said("yy")}):
        found = agreement(judges)
        assert found.pictures == 0
        assert found.fleiss.note == "no picture with valid answers"
        assert found.kappa["a", "b"].value is None
        assert found.table["a", "b"].sum() == 0


def test_the_interval_narrows_with_pictures() -> None:
    columns = drawn(0, n=40_000, judges=3)
    found = agreement({name: said(column) for name, column in zip("abc", columns, strict=True)})
    for kappa in (found.kappa["a", "b"], found.fleiss):
        assert kappa.low is not None
        assert kappa.high is not None
        assert 0.002 < kappa.high - kappa.low < 0.03


@pytest.mark.parametrize("counts", [[[1, 0], [0, 1]], [[2, 0], [0, 3]], [[0, 0], [0, 0]]])
def test_counts_of_unequal_or_single_judges_are_refused(counts: list[list[int]]) -> None:
    check_refused(lambda: fleiss(np.array(counts)), "counts must")
