import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monoseme.core.errors import UserError
from monoseme.learning import Schedule


def test_values_by_hand() -> None:
    schedule = Schedule(warmup=2, decay="cosine", floor=0.2)
    expected = [0.5, 1.0, 1.0, 0.2 + 0.4 * (1 + math.cos(math.pi / 4)), 0.6, 0.2 + 0.4 * (1 - math.cos(math.pi / 4))]
    assert [schedule.factor(step, 6) for step in range(6)] == pytest.approx(expected)
    assert schedule.factor(6, 6) == pytest.approx(0.2)


def test_a_warm_up_may_start_above_zero() -> None:
    """Torch's LinearLR from a tenth over a quarter of the steps, then its cosine to zero."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    linear = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=0.1, total_iters=10)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=30)
    both = torch.optim.lr_scheduler.SequentialLR(optimiser, [linear, cosine], milestones=[10])
    expected = []
    for _ in range(40):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        both.step()
    schedule = Schedule(warmup=10, decay="cosine", start=0.1)
    assert [schedule.factor(step, 40) for step in range(40)] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 30), st.sampled_from(["cosine", "constant"]), st.floats(0, 1), st.integers(1, 40))
def test_rises_then_falls_and_stays_between_floor_and_one(warmup, decay, floor, steps) -> None:
    schedule = Schedule(warmup, decay, floor)
    factors = [schedule.factor(step, steps) for step in range(steps)]
    assert all(0 < f <= 1 or (f == pytest.approx(floor)) for f in factors)
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    assert all(f >= floor - 1e-12 for f in factors[warmup:])


@pytest.mark.parametrize(
    ("argument", "call"),
    [("warmup", (-1,)), ("decay", (0, "linear")), ("floor", (0, "cosine", 1.5)), ("start", (4, "cosine", 0.0, -0.1))],
)
def test_bad_schedules(argument, call, monkeypatch) -> None:
    monkeypatch.setattr(Schedule, "__init__", getattr(Schedule.__init__, "__wrapped__", Schedule.__init__))
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]*$"):
        Schedule(*call)
