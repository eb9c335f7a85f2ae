"""Rows of any size and origin: what training logs and keeps does not depend on their units."""

import pytest
import torch

from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.evaluation import evaluate
from monoseme.featurizers import BlockTopK, TopK, fit


def rows(n: int = 200, d: int = 8) -> torch.Tensor:
    return torch.randn(n, d, generator=generator(0))


@pytest.mark.parametrize("norm", ["sqrt_d", "unit", "none"])
def test_fitting_again_goes_on_from_what_was_learned(norm) -> None:
    featurizer = TopK(8, 16, k=3, norm=norm)
    fit(featurizer, ArrayRows(rows()), steps=60, batch_size=50, lr=1e-2)
    before = {name: value.clone() for name, value in featurizer.state_dict().items()}
    fit(featurizer, ArrayRows(rows()), steps=1, batch_size=50, lr=1e-12)
    for name, value in featurizer.state_dict().items():
        torch.testing.assert_close(value.float(), before[name].float(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", ["sqrt_d", "none"])
def test_the_logged_fvu_is_about_the_mean(norm) -> None:
    x = rows() + 10
    featurizer = TopK(8, 16, k=3, norm=norm)
    history = fit(featurizer, ArrayRows(x), steps=20, batch_size=200, lr=1e-12).history
    measured = evaluate(featurizer, x)["fvu"].value
    assert history.lines[-1]["fvu"] == pytest.approx(measured, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e20, 1e37])
def test_huge_and_tiny_rows_are_as_good_as_others(scale) -> None:
    def run(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        featurizer = BlockTopK(8, 16, 2, k=3)
        fit(featurizer, ArrayRows(x), steps=20, batch_size=100)
        value = evaluate(featurizer, x)["fvu"].value
        assert value is not None
        return value, featurizer.encode(x).presence

    fvu, presence = run(rows())
    scaled_fvu, scaled_presence = run(rows() * scale)
    assert scaled_fvu == pytest.approx(fvu, rel=1e-4)
    assert float(scaled_presence.max() / scale) == pytest.approx(float(presence.max()), rel=1e-3)
