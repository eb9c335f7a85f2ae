"""A sweep of shapes end to end, small: trained, measured, resumed; and energies against their definition."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import generator
from monoseme.interaction import Measured, Plan, ShapeTable, Training, network_energies, shapes, sweep
from monoseme.interaction.sweeping import hours, trial
from monoseme.interaction.tasks import Task, narma_task, pictures_task, text_task
from monoseme.models.families import CNN, GPT, CNNShape, GPTShape

SIZES: dict[str, Any] = {"vocabulary": 256, "context": 16}
MEASURED = Measured(samples=6, probes=40, projected=5)


def text() -> Task:
    words = np.random.default_rng(0).choice(["ab", "cd ", "efg", "h."], 4000)
    return text_task([(str(i), "".join(words[i::5])) for i in range(5)], "made up", window=16, held_out=0.2)


def pictures() -> Task:
    x = torch.randn(60, 1, 4, 4, generator=generator(0, "pictures"))
    return pictures_task(x, [i % 3 for i in range(60)], "made up")


def plan(lr: float = 3e-3) -> Plan:
    return Plan("gpt", text, Training(1, "epochs", batch_size=16, lr=lr), MEASURED, SIZES)


def test_a_sweep_is_trained_measured_and_gone_on_with(tmp_path: Path) -> None:
    rows = shapes("gpt", 12_000, depths=[1, 2], tolerance=1, **SIZES)
    first = sweep(plan(), rows[:1], tmp_path, seeds=(0, 1))
    assert len(first.rows) == 2
    both = sweep(plan(), rows, tmp_path, seeds=(0, 1))
    assert [row.status for row in both.rows] == ["done"] * 4
    table = ShapeTable.from_sweep(both)
    assert set(table.depth) == {1, 2}
    for name in ("test_loss", "validation_loss", "ratio_out", "aofe_out", "normalised_aofe_out", "plugin_ratio_out"):
        assert np.isfinite(table.column(name)).all(), name
    assert (table.column("test_loss") < math.log(256)).all()
    assert table.column("parameters")[0] == rows[0].parameters
    assert (table.column("cpu_seconds_training") > 0).all()
    # the same point gives the same numbers; another plan is refused
    again = trial({"budget": rows[0].budget, "depth": 1, "width": rows[0].width, "seed": 0}, tmp_path / "x", plan())
    assert again["test_loss"] == first.rows[0].numbers["test_loss"]
    with pytest.raises(UserError):
        sweep(plan(lr=1e-3), rows, tmp_path, seeds=(0, 1))


def test_a_shape_may_have_a_rate_of_its_own_and_wrong_rows_are_refused(tmp_path: Path) -> None:
    own = Plan("gpt", text, Training(1, lr=1e-3), rates={"2 x 8": 5e-3})
    assert (own.rate(2, 8).lr, own.rate(1, 8).lr) == (5e-3, 1e-3)
    with pytest.raises(UserError, match="rows"):
        sweep(own, [], tmp_path)
    mixed = [*shapes("gpt", 60_000, depths=[1]), *shapes("mlp", 60_000, depths=[2])]
    with pytest.raises(UserError, match="rows"):
        sweep(own, mixed, tmp_path)
    assert hours(plan(), shapes("gpt", 12_000, depths=[1], tolerance=1, **SIZES), 3) > 0


def value(found: Outcome | float) -> float:
    assert isinstance(found, Outcome)
    assert found.value is not None
    return found.value


def test_energies_of_text_are_those_of_the_projected_jacobian() -> None:
    task, module = text(), GPT(GPTShape(1, 8, **SIZES), seed=1).double().eval()
    found = network_energies(module, task, MEASURED)
    tokens = task.split(next(iter(task.test.in_order(6))).x)[0]
    e = module.embed(tokens).detach()
    project = torch.randn(256, 5, generator=generator(42, "logits")).double() / math.sqrt(5)
    g = torch.zeros(5, 5, dtype=torch.float64)
    for row in e:
        one = functools.partial(_read, module, project)
        j = torch.autograd.functional.jacobian(one, row)
        assert isinstance(j, torch.Tensor)
        g += j.flatten(1) @ j.flatten(1).T / len(e)
    ratio = 1 - float(g.diagonal().square().sum() / g.square().sum())
    sketched = found["plugin_ratio_out"]
    assert isinstance(sketched, float)
    assert sketched == pytest.approx(ratio, abs=0.15)  # 240 Gaussian directions
    assert value(found["participation_ratio_out"]) > 0.9


def _read(module: GPT, project: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return module.read(row[None])[0, -1] @ project


def test_energies_of_pictures_and_sequences_are_exact_on_both_sides() -> None:
    task, module = pictures(), CNN(CNNShape(1, 4, 1, 4, 3)).double().eval()
    measured = Measured(samples=9)
    found = network_energies(module, task, measured)
    x = task.split(next(iter(task.test.in_order(9))).x)[0].double()
    jacobians = [torch.autograd.functional.jacobian(lambda t: module(t[None])[0], row).flatten(1) for row in x]  # pyright: ignore
    for side, made in (("out", [j @ j.T for j in jacobians]), ("in", [j.T @ j for j in jacobians])):
        g = torch.stack(made).mean(0)
        ratio = 1 - float(g.diagonal().square().sum() / g.square().sum())
        assert found[f"plugin_ratio_{side}"] == pytest.approx(ratio, rel=1e-5)
    narma = narma_task(sequences=40, steps=40)
    made = network_energies(_Sum(), narma, Measured(samples=4))
    # every output is the sum of all inputs: all gradients are one direction, on both sides
    assert value(made["participation_ratio_out"]) == pytest.approx(1)
    assert value(made["ratio_out"]) == pytest.approx(1 - 1 / 10)
    assert value(made["ratio_in"]) == pytest.approx(1 - 1 / 40)


class _Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True).expand(-1, x.shape[1], -1)
