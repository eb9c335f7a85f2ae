"""Bad settings and bad calls: one line that names the argument."""

import numpy as np
import pytest
from learning_toy import Toy, toy_rows

from monoseme.core.errors import UserError
from monoseme.learning import TrainConfig, train


def assert_one_line(error: pytest.ExceptionInfo[BaseException], argument: str) -> None:
    assert str(error.value).startswith(f"{argument} must ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("steps", {"steps": 0}),
        ("batch_size", {"batch_size": 0}),
        ("batch_size", {"batch_size": 2.5}),
        ("seed", {"seed": "a"}),
        ("log_every", {"log_every": 0}),
        ("checkpoint_every", {"checkpoint_every": 0}),
        ("lr", {"lr": 0.0}),
        ("lr", {"lr": {"a": float("nan")}}),
        ("optimiser", {"optimiser": "sgd"}),
        ("clip", {"clip": 0.0}),
        ("weight_decay", {"weight_decay": -0.1}),
        ("weight_decay", {"weight_decay": float("nan")}),
        ("clip", {"clip": float("inf")}),
    ],
)
def test_bad_settings(argument, settings, monkeypatch) -> None:
    # a misspelt choice is a type error to beartype: see what a user without it sees
    monkeypatch.setattr(TrainConfig, "__init__", getattr(TrainConfig.__init__, "__wrapped__", TrainConfig.__init__))
    with pytest.raises(UserError) as error:
        TrainConfig(**({"steps": 10} | settings))
    assert_one_line(error, argument)


def test_numbers_of_numpy_can_be_logged_and_kept(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(TrainConfig, "__init__", getattr(TrainConfig.__init__, "__wrapped__", TrainConfig.__init__))
    for lr in (np.float32(0.01), {"only": np.float32(0.01)}):
        config = TrainConfig(steps=3, batch_size=8, lr=lr)  # pyright: ignore[reportArgumentType]
        train(Toy(), toy_rows(), config=config, out=tmp_path / type(lr).__name__)
        assert train(Toy(), toy_rows(), config=config, out=tmp_path / type(lr).__name__).steps == 3


@pytest.mark.parametrize(
    ("argument", "objects", "settings"),
    [
        ("batch_size", Toy(), {"batch_size": 301}),
        ("objects", {}, {}),
        ("lr", {"encoder": Toy()}, {"lr": {"encodr": 0.1}}),
        ("lr", {"a": Toy(), "b": Toy()}, {"lr": {"a": 0.1}}),
    ],
)
def test_bad_calls(argument, objects, settings) -> None:
    with pytest.raises(UserError) as error:
        train(objects, toy_rows(), config=TrainConfig(**({"steps": 3, "batch_size": 8} | settings)))
    assert_one_line(error, argument)


def test_too_little_data_is_counted_in_rows() -> None:
    with pytest.raises(UserError, match=r"1\.\.300, the number of rows; got 301"):
        train(Toy(), toy_rows(), config=TrainConfig(steps=3, batch_size=301))


def test_a_number_may_not_take_the_logs_own_name() -> None:
    class Greedy(Toy):
        def loss(self, x, step):
            loss, numbers = super().loss(x, step)
            return loss, numbers | {"step": 0.0}

    with pytest.raises(UserError) as error:
        train(Greedy(), toy_rows(), config=TrainConfig(steps=3, batch_size=8))
    assert_one_line(error, "objects")


def test_frozen_objects_are_refused() -> None:
    toy = Toy()
    for parameter in toy.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(UserError) as error:
        train(toy, toy_rows(), config=TrainConfig(steps=3, batch_size=8))
    assert_one_line(error, "objects")
