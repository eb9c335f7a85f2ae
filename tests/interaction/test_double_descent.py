"""The toy: its compiled step against autograd, its AGOPs against Jacobians, and a small sweep that goes on."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from monoseme.core.rows import DrawnRows
from monoseme.core.seeds import generator
from monoseme.learning import TrainConfig, train
from monoseme.papers.interaction.double_descent import Recipe, double_descent, numbers
from monoseme.papers.interaction.toy import Toy, agops, dense, draw_rows

SMALL = Recipe(n=30, kept=0.1, steps=20, batch_size=16, test_rows=40)


def toy(n: int = 30, dtype: torch.dtype = torch.float64) -> Toy:
    """Away from the start, so that about half of the outputs are on and all gradients count."""
    made = Toy(n, 0, dtype)
    with torch.no_grad():
        made.w.mul_(3)
        made.b.copy_(0.1 * torch.randn(n, generator=generator(0, "b"), dtype=torch.float64).to(dtype))
    return made


class Slow(Toy):
    def loss(self, x: Tensor, step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        return self.dense_loss(dense(x, len(self.b))), {}


def test_rows_are_of_unit_norm_sparse_and_never_negative() -> None:
    x = dense(draw_rows(2000, 100, 0.05, 1), 100).double()
    assert float(x.min()) == 0
    filled = x.norm(dim=1) > 0  # 0.6 % of the rows have no entry at this size
    torch.testing.assert_close(x.norm(dim=1)[filled], torch.ones(int(filled.sum()), dtype=torch.float64))
    assert abs(float((x > 0).double().mean()) - 0.05) < 5 * (0.05 * 0.95 / x.numel()) ** 0.5
    # before the division entries are uniform: within a row of two, their ratio min ÷ max is uniform too
    two = x[(x > 0).sum(1) == 2].sort(1, descending=True).values
    assert abs(float((two[:, 1] / two[:, 0]).mean()) - 0.5) < 5 / math.sqrt(12 * len(two))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_the_compiled_step_is_the_dense_one(dtype, tolerance) -> None:
    rows = draw_rows(200, 30, 0.1, 0).to(dtype)
    fast, slow = toy(dtype=dtype), toy(dtype=dtype)
    loss, expected = fast.loss(rows, 0)[0], slow.dense_loss(dense(rows, 30))
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=tolerance, atol=0)
    for mine, theirs in zip(fast.parameters(), slow.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert float((mine.grad - theirs.grad).norm() / theirs.grad.norm()) < tolerance


def test_a_trained_toy_is_the_same_by_both_ways() -> None:
    made = []
    for kind in (Toy, Slow):
        thing = kind(30, 0, torch.float64)
        rows = DrawnRows(draw_rows(50, 30, 0.1, 0).double())
        train(thing, rows, config=TrainConfig(60, 40, 0.02, weight_decay=0.01))
        made.append(thing.state())
    torch.testing.assert_close(made[0], made[1], rtol=1e-9, atol=1e-11)


def test_both_agops_are_mean_products_of_jacobians() -> None:
    model, x = toy(12), dense(draw_rows(25, 12, 0.3, 0), 12).double()
    w, b = model.w.detach(), model.b.detach()

    def f(row: Tensor) -> Tensor:
        return torch.relu(row @ w.T @ w + b)

    jacobians = torch.stack([torch.autograd.functional.jacobian(f, row) for row in x])  # pyright: ignore
    output, given = agops(w, b, x)
    torch.testing.assert_close(output, (jacobians @ jacobians.mT).mean(0), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(given, (jacobians.mT @ jacobians).mean(0), rtol=1e-12, atol=1e-14)


def test_numbers_by_hand() -> None:
    model, rows, test = toy(), draw_rows(20, 30, 0.1, 0), draw_rows(40, 30, 0.1, 1)
    found = numbers(model, rows, test)
    assert found["train_loss"] == pytest.approx(float(model.dense_loss(dense(rows, 30).double()).detach()), rel=1e-12)
    output, given = agops(model.w.detach(), model.b.detach(), dense(test, 30).double())
    for side, matrix in (("out", output), ("in", given)):
        off = sum(float(matrix[i, j]) ** 2 for i in range(30) for j in range(30) if i != j)
        assert found[f"aofe_{side}"] == pytest.approx(off, rel=1e-10)
        assert found[f"ratio_{side}"] == pytest.approx(off / float(matrix.norm()) ** 2, rel=1e-10)
        assert -1 <= found[f"pearson_{side}"] <= 1
    # where every output is on, G_in = G₀², and its root is Wᵀ W
    with torch.no_grad():
        model.b.fill_(100.0)
    found = numbers(model, rows, test)
    assert found["cosine_root_in"] == pytest.approx(1, abs=1e-7)
    assert found["cosine_root_out"] == pytest.approx(1, abs=1e-7)
    assert found["cosine_in"] < 0.999


def test_the_sweep_goes_on_and_refuses_another_recipe(tmp_path) -> None:
    part = double_descent(tmp_path, sizes=(4,), seeds=(0, 1), recipe=SMALL)
    stamp = [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("trials/*/done.json"))]
    whole = double_descent(tmp_path, sizes=(4, 60), seeds=(0, 1), recipe=SMALL)
    assert [row.status for row in whole.rows] == ["done"] * 4
    assert whole.rows[0].numbers == part.rows[0].numbers
    kept = [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("trials/*/done.json"))]
    assert set(stamp) <= set(kept)
    assert whole.rows[0].numbers["test_loss"] != whole.rows[1].numbers["test_loss"]  # seeds differ
    with pytest.raises(ValueError, match=r"^out must hold trials of this sweep[^\n]*recipe\.steps = 20"):
        double_descent(tmp_path, sizes=(4,), seeds=(0,), recipe=dataclasses.replace(SMALL, steps=21))


def test_the_recipe_is_the_papers() -> None:
    config = Recipe().config(40_000, 0)
    rates = [config.schedule.factor(step, config.steps) for step in (0, 375, 750, 1875, 2999)]
    assert rates == pytest.approx([0.1, 0.55, 1.0, 0.5, 0.0], abs=1e-6)
    assert (config.steps, config.batch_size, config.lr, config.weight_decay) == (3000, 2048, 5e-3, 1e-2)
    assert Recipe().config(500, 0).batch_size == 500
