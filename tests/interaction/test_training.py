"""Training on a task: resumed exactly, stopped early at the best weights, amounts as they are defined."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.interaction.supervised import Supervised, mean_loss
from monoseme.interaction.tasks import Task, narma_task
from monoseme.interaction.training import Training, fit, split_losses
from monoseme.learning import Interrupted, TrainConfig, train


class Linear(nn.Module):
    """Each output a linear map of the inputs so far, as a recurrent network has."""

    def __init__(self, steps: int = 40, bad: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((steps, steps), bad))

    def forward(self, x: Tensor) -> Tensor:
        return (x[..., 0] @ self.w)[..., None]


def task() -> Task:
    return narma_task(sequences=300, steps=40)


TRAINING = Training(3, batch_size=16, lr=0.01)


def test_amounts() -> None:
    t = task()  # 240 rows of 10 targets
    assert Training(3, batch_size=16).steps(t, 0, 1) == 45
    assert Training(20, "parameters", batch_size=16).steps(t, budget=1000, flops=1) == 20 * 1000 / 10 / 16
    assert Training(4.8e6, "flops", batch_size=16).steps(t, 0, flops=1000) == 100
    assert Training(1e-9).steps(t, 0, 1) == 1


def test_losses_of_whole_splits() -> None:
    t, module = task(), Linear()
    found = split_losses(module, t, ("train", "validation", "test"))
    # a network that says 0: the mean square of the targets
    rows = {"validation": t.validation, "test": t.test}
    for name, split in rows.items():
        assert isinstance(split, ArrayRows)
        assert found[f"{name}_loss"] == pytest.approx(float(split.x[:, 40:].double().square().mean()), rel=1e-6)
    assert isinstance(t.train, ArrayRows)
    assert found["train_loss"] == pytest.approx(float(t.train.x[:30, 40:].double().square().mean()), rel=1e-6)
    assert isinstance(t.test, ArrayRows)
    first = float(t.test.x[:7, 40:].double().square().mean())
    assert mean_loss(module.train(), t, t.test, 7) == pytest.approx(first, rel=1e-6)
    assert module.training


def test_training_learns_and_leaves_evaluation_mode() -> None:
    t = task()
    fitted = fit(Linear(), t, TRAINING, 200)
    assert split_losses(fitted.module, t)["test_loss"] < 0.9 * split_losses(Linear(), t)["test_loss"]
    assert not fitted.module.training
    rates = [line["lr"] for line in fitted.history.lines]
    assert rates[-1] < 0.01 * max(rates)


class Stops(Linear):
    """Sends itself a signal at a step, as a machine that goes down does."""

    at = 0

    def forward(self, x: Tensor) -> Tensor:
        self.at -= 1
        if self.at == 0:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)
        return super().forward(x)


@pytest.mark.parametrize("patience", [None, 2])
def test_stopped_and_gone_on_is_the_same_bits(tmp_path: Path, patience) -> None:
    t, training = task(), dataclasses.replace(TRAINING, patience=patience, checks=5)
    straight = fit(Linear(), t, training, 40)
    broken = Stops()
    broken.at = 17
    with pytest.raises(Interrupted):
        fit(broken, t, training, 40, out=tmp_path)
    resumed = fit(Linear(), t, training, 40, out=tmp_path)
    torch.testing.assert_close(resumed.module.state_dict(), straight.module.state_dict(), rtol=0, atol=0)
    with pytest.raises(UserError, match=r"^out must hold a checkpoint of this run.*weight_decay"):
        fit(Linear(), t, dataclasses.replace(training, weight_decay=0.2), 40, out=tmp_path)


def test_patience_ends_the_run_at_the_best_weights(tmp_path: Path) -> None:
    t = task()
    # a rate at which weights, once good, are driven away again
    hot = Training(3, batch_size=16, lr=0.3, warmup=0.0, clip=None, patience=2, checks=50)
    fitted = fit(Linear(), t, hot, 200, out=tmp_path)
    assert fitted.history.steps < 200
    assert fitted.history.steps % 4 == 0
    # the same run without patience: its checks, and what the rule makes of them
    thing, checked = Supervised(Linear(), t), []
    train(thing, t.train, config=hot.config(200, 0), until=lambda step: _note(checked, thing, t, step))
    ends = next(i for i in range(2, 50) if min(checked[i - 1 : i + 1]) >= min(checked[: i - 1]))
    assert fitted.history.steps == 4 * (ends + 1)
    assert mean_loss(fitted.module, t, t.validation) == pytest.approx(min(checked[: ends + 1]), rel=1e-12)
    again = fit(Linear(), t, hot, 200, out=tmp_path)
    assert again.history.steps == fitted.history.steps
    torch.testing.assert_close(again.module.state_dict(), fitted.module.state_dict(), rtol=0, atol=0)


def _note(checked: list[float], thing: Supervised, t: Task, step: int) -> bool:
    if step % 4 == 0 and step // 4 > len(checked):
        checked.append(mean_loss(thing.module, t, t.validation))
    return False


def test_until_is_asked_after_steps_and_ends_a_run_that_stays_ended(tmp_path: Path) -> None:
    t, asked = task(), []
    config = TrainConfig(30, 16, 0.01)

    def fifth(step: int) -> bool:
        asked.append(step)
        return step >= 5

    ended = train(Supervised(Linear(), t), t.train, config=config, out=tmp_path, until=fifth)
    assert (ended.steps, min(asked)) == (5, 1)
    assert train(Supervised(Linear(), t), t.train, config=config, out=tmp_path).steps == 5  # finished is finished


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("amount", {"amount": 0.0}),
        ("per", {"amount": 1.0, "per": "hours"}),
        ("warmup", {"amount": 1.0, "warmup": 1.0}),
        ("patience and checks", {"amount": 1.0, "patience": 0}),
    ],
)
def test_bad_settings(argument, settings, monkeypatch) -> None:
    monkeypatch.setattr(Training, "__init__", getattr(Training.__init__, "__wrapped__", Training.__init__))
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]*$"):
        Training(**settings)


def test_first_weights_are_not_the_trainers_affair() -> None:
    drawn = torch.randn(40, 40, generator=generator(0, "w"))
    module = Linear()
    with torch.no_grad():
        module.w.copy_(drawn)
    fit(module, task(), TRAINING, 1)
    assert 0 < float((module.w - drawn).abs().max().detach()) < 0.05
