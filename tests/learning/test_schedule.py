import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoseme.core.errors import UserError
from monoseme.learning import Schedule


def test_values_by_hand() -> None:
    schedule = Schedule(warmup=2, decay="cosine", floor=0.2)
    expected = [0.5, 1.0, 1.0, 0.2 + 0.4 * (1 + math.cos(math.pi / 4)), 0.6, 0.2 + 0.4 * (1 - math.cos(math.pi / 4))]
    assert [schedule.factor(step, 6) for step in range(6)] == pytest.approx(expected)
    assert schedule.factor(6, 6) == pytest.approx(0.2)


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
    ("argument", "call"), [("warmup", (-1,)), ("decay", (0, "linear")), ("floor", (0, "cosine", 1.5))]
)
def test_bad_schedules(argument, call, monkeypatch) -> None:
    monkeypatch.setattr(Schedule, "__init__", getattr(Schedule.__init__, "__wrapped__", Schedule.__init__))
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]*$"):
        Schedule(*call)
