"""Pictures that judges compare with, and are shown: what is none is refused, and what is no number is no "no"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from tests.composition.refusals import check_refused
from tests.composition.test_features import small
from torch import Tensor

from monoseme.composition.judges import FeatureJudge, Judge, PixelJudge, ReplayJudge
from monoseme.composition.judges.protocol import check_picture, eight_bit
from monoseme.composition.scenes import scene

JUDGES: dict[str, Callable[[Tensor], Judge]] = {
    "pixels": lambda reference: PixelJudge(reference, 0.1),
    "features": lambda reference: FeatureJudge(reference, model=small(), at="pool"),
}
each = pytest.mark.parametrize("name", JUDGES)


@each
def test_a_picture_with_no_numbers_is_invalid(name: str) -> None:
    face = scene("face").render(16).float()
    broken = face.clone()
    broken[0, 0, 0] = torch.nan
    found = JUDGES[name](face).judge(torch.stack([face, broken]))
    assert [(one.answer, one.score is None) for one in found] == [("yes", False), ("invalid", True)]
    assert "no number" in found[1].note


def test_a_measure_without_pixels_is_no_no() -> None:
    one = torch.zeros(1, 1, 3)  # no neighbours, so no edges
    assert PixelJudge(one, 0.1, "edges").judge(one[None])[0].answer == "invalid"


@each
def test_no_pictures_are_no_verdicts(name: str) -> None:
    assert JUDGES[name](scene("face").render(16).float()).judge(torch.zeros(0, 16, 16, 3)) == []


@each
def test_verdicts_do_not_depend_on_company(name: str) -> None:
    face = scene("face").render(16).float()
    judge = JUDGES[name](face)
    pictures = (face + 0.2 * torch.randn(70, 16, 16, 3, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    alone = [judge.judge(picture[None])[0] for picture in pictures]
    together = judge.judge(pictures)
    assert [one.answer for one in together] == [one.answer for one in alone]
    scores = [[one.score or 0.0 for one in found] for found in (together, alone)]
    np.testing.assert_allclose(*scores, rtol=1e-5)


WRONG = {
    "of eight bits": torch.full((16, 16, 3), 255.0),
    "below 0": torch.full((16, 16, 3), -0.5),
    "without numbers": torch.full((16, 16, 3), torch.nan),
    "with an infinite one": torch.full((16, 16, 3), torch.inf),
    "empty": torch.zeros(0, 0, 3),
}


@each
@pytest.mark.parametrize("kind", WRONG)
def test_references_that_are_none_are_refused(name: str, kind: str) -> None:
    check_refused(lambda: JUDGES[name](WRONG[kind]), "reference must")


@pytest.mark.parametrize("side", [1, 3, 5, 7])
def test_references_too_small_to_be_scrambled_are_refused(side: int) -> None:
    check_refused(lambda: FeatureJudge(torch.rand(side, side, 3), model=small(), at="pool"), "reference must")


@pytest.mark.parametrize("picture", [torch.zeros(4, 4, 3, dtype=torch.uint8), torch.zeros(4, 4), torch.zeros(4, 4, 4)])
def test_other_tensors_are_refused(picture: Tensor) -> None:
    """Where shapes are not checked, as outside of tests."""
    check_refused(lambda: check_picture(picture, "reference"), "reference must")
    with pytest.raises(TypeCheckError):
        PixelJudge(picture, 0.1)


@pytest.mark.parametrize("threshold", [-0.1, float("nan"), float("inf")])
def test_thresholds(threshold: Any) -> None:
    check_refused(lambda: PixelJudge(torch.zeros(4, 4, 3), threshold), "threshold must")


@pytest.mark.parametrize(
    "line",
    [
        b"picture,answer",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"picture": "a", "answer": ["yes"], "score": 1, "note": ""}',
        b'{"picture": "a", "answer": "yes", "score": true, "note": ""}',
        b'{"picture": "a", "answer": "maybe", "score": 1, "note": ""}',
    ],
    ids=["a CSV", "a list", "brackets without end", "no text", "a list of answers", "no score", "no answer"],
)
def test_lines_that_are_no_verdicts_are_refused(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line + b"\n")
    check_refused(lambda: ReplayJudge(tmp_path / "a.jsonl"), "line 1 of a.jsonl")


def test_eight_bits_of_what_is_no_number() -> None:
    picture = torch.tensor([[[torch.nan, torch.inf, -torch.inf]]])
    np.testing.assert_array_equal(eight_bit(picture), [[[0, 255, 0]]])
