"""A row, loss or gradient that is not finite: named, nothing moved, nothing lost."""

import signal

import pytest
import torch
from learning_toy import CONFIG, PoisonedRows, SignalAt, Toy, assert_same_run, checkpoint_of, toy_rows

from monoseme.core.errors import UserError
from monoseme.core.rows import Batch
from monoseme.learning import Interrupted, train
from monoseme.learning.checks import bad_row


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_bad_row_is_named_and_the_present_state_kept(tmp_path, value) -> None:
    toy, rows = Toy(), PoisonedRows(13, value)
    sample = int(rows.batch(13, 16, 0).sample[2])
    with pytest.raises(UserError) as error:
        train(toy, rows, config=CONFIG, out=tmp_path)
    assert f"sample {sample}, position {sample + 1000} (step 13, which was not taken)" in str(error.value)
    assert str(error.value).startswith("rows must be finite")
    assert "\n" not in str(error.value)
    assert checkpoint_of(tmp_path).step == 13
    torch.testing.assert_close(checkpoint_of(tmp_path).objects["only"], toy.state(), rtol=0, atol=0)
    assert all(torch.isfinite(tensor).all() for tensor in toy.state().values())

    # the data mended, the run goes on as if nothing had been
    train(Toy(), PoisonedRows(1000), config=CONFIG, out=tmp_path)
    train(Toy(), PoisonedRows(1000), config=CONFIG, out=tmp_path / "straight")
    assert_same_run(tmp_path, tmp_path / "straight")


def test_bad_row_known_beforehand_stops_before_anything_is_initialised() -> None:
    rows = toy_rows()
    rows.x[123, 4] = float("nan")
    toy = Toy()
    with pytest.raises(UserError, match=r"^rows must be finite; .*sample 123, position 0[^\n]*$"):
        train(toy, rows, config=CONFIG)
    assert toy.begun == 0


def test_large_finite_rows_are_not_mistaken_for_infinite_ones() -> None:
    x, index = torch.full((4, 4), 3e38), torch.arange(4)
    assert not torch.isfinite(x.sum())
    assert bad_row(Batch(x, index, index)) is None


class BadLoss(Toy):
    def __init__(self, at: int, what: str) -> None:
        super().__init__()
        self.at, self.what = at, what

    def loss(self, x, step):
        loss, numbers = super().loss(x, step)
        if step == self.at and self.what == "loss":
            loss = loss * float("nan")
        if step == self.at and self.what == "gradient":
            loss = loss + (self.bias * 0).sqrt().sum()  # 0, with slope 0 · ∞
        return loss, numbers


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_bad_loss_or_gradient_names_object_and_step_and_moves_nothing(tmp_path, what) -> None:
    good, bad = Toy(), BadLoss(13, what)
    with pytest.raises(UserError) as error:
        train({"good": good, "bad": bad}, toy_rows(), config=CONFIG, out=tmp_path)
    assert f"got {what} nan of 'bad' at step 13" in str(error.value)
    assert str(error.value).startswith("objects must ")
    assert "\n" not in str(error.value)
    assert checkpoint_of(tmp_path).step == 10

    twins = {"good": Toy(), "bad": SignalAt(12, signal.SIGINT)}
    with pytest.raises(Interrupted):
        train(twins, toy_rows(), config=CONFIG)
    for toy, twin in zip((good, bad), twins.values(), strict=True):
        torch.testing.assert_close(toy.weight, twin.weight, rtol=0, atol=0)
