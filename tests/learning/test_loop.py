"""The loop itself: what is trained, what is logged, what is left alone."""

import threading

import numpy as np
import pytest
import torch
from learning_toy import Toy, toy_rows

from monoseme.core.rows import ArrayRows, Batch
from monoseme.learning import Progress, Schedule, Trainable, TrainConfig, read_log, train, without_clock

CONFIG = TrainConfig(steps=30, batch_size=16, lr=0.01, log_every=7)


def assert_same(one: Toy, other: Toy) -> None:
    for name, tensor in one.state().items():
        torch.testing.assert_close(tensor, other.state()[name], rtol=0, atol=0)


def test_toy_is_trainable() -> None:
    assert isinstance(Toy(), Trainable)


def test_against_a_loop_written_out() -> None:
    toy, twin, rows = Toy(), Toy(), toy_rows()
    history = train(toy, rows, config=CONFIG)

    twin.begin(rows)
    adam = torch.optim.Adam(twin.parameters(), lr=0.01, fused=True)
    losses = []
    for step in range(30):
        adam.zero_grad()
        loss, _ = twin.loss(rows.batch(step, 16, 0).x, step)
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
        with torch.no_grad():
            twin.after_step(step)
    with torch.no_grad():
        twin.finish()
    assert_same(toy, twin)
    assert (toy.begun, toy.finished) == (1, 1)
    assert history.series("loss") == ([1, 7, 14, 21, 28, 30], [losses[s - 1] for s in (1, 7, 14, 21, 28, 30)])
    assert history.series("asked")[1] == [0, 6, 13, 20, 27, 29]
    assert losses[-1] < losses[0]


def test_history_counts_rows_and_repeats() -> None:
    history = train(Toy(), toy_rows(n=100), config=CONFIG)
    assert (history.steps, history.rows, history.available) == (30, 480, 100)
    assert history.epochs == pytest.approx(4.8)
    assert history.lines[-1]["rows"] == 480
    assert history.path is None
    assert history.seconds >= history.lines[-1]["clock"]["seconds"] > 0


def test_global_random_state_is_neither_read_nor_moved() -> None:
    # Python's own generator is left out: beartype, which checks these calls, draws from it
    first = Toy()
    train(first, toy_rows(), config=CONFIG)
    torch.rand(7)
    np.random.rand(3)  # noqa: NPY002 - the global generator is what is tested
    before = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    second = Toy()
    train(second, toy_rows(), config=CONFIG)
    torch.testing.assert_close(torch.get_rng_state(), before[0], rtol=0, atol=0)
    assert str(np.random.get_state(legacy=False)) == str(before[1])  # noqa: NPY002
    assert_same(first, second)


def test_another_seed_gives_other_weights() -> None:
    first, second = Toy(), Toy()
    train(first, toy_rows(), config=CONFIG)
    train(second, toy_rows(), config=TrainConfig(steps=30, batch_size=16, lr=0.01, seed=1))
    assert not torch.equal(first.weight, second.weight)


class CountingRows(ArrayRows):
    def __init__(self) -> None:
        super().__init__(toy_rows().x)
        self.asked: list[int] = []

    def batch(self, step: int, size: int, seed: int) -> Batch:
        self.asked.append(step)
        return super().batch(step, size, seed)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_several_objects_equal_each_alone_from_one_pass(optimiser) -> None:
    rates = {"small": 0.01, "large": 0.003}

    def config(lr) -> TrainConfig:
        return TrainConfig(steps=30, batch_size=16, lr=lr, optimiser=optimiser, clip=0.5)

    def make() -> dict[str, Toy]:
        return {"small": Toy(width=3), "large": Toy(width=6, seed=1)}

    together, alone, rows = make(), make(), CountingRows()
    histories = train(together, rows, config=config(rates))
    assert rows.asked == list(range(30))
    for name, toy in alone.items():
        history = train(toy, toy_rows(), config=config(rates[name]))
        assert_same(toy, together[name])
        assert history.series("loss") == histories[name].series("loss")
        assert histories[name].lines[-1]["lr"] == rates[name]


def test_schedule_reaches_the_optimiser() -> None:
    schedule = Schedule(warmup=4, decay="cosine", floor=0.1)
    history = train(
        Toy(), toy_rows(), config=TrainConfig(steps=20, batch_size=8, lr=0.5, schedule=schedule, log_every=1)
    )
    assert history.series("lr")[1] == [0.5 * schedule.factor(step, 20) for step in range(20)]

    # a rate so small that Adam's step is below the last bit: only the after-step constraint moves the weights
    still, toy = Toy(), Toy()
    train(toy, toy_rows(), config=TrainConfig(steps=1, batch_size=8, lr=1e-30))
    torch.testing.assert_close(toy.weight, 2 * still.weight / still.weight.norm(dim=1, keepdim=True))


def test_clipping_bounds_the_gradient_that_is_used() -> None:
    seen = []

    class Watched(Toy):
        def after_step(self, step: int) -> None:
            grads = [parameter.grad for parameter in self.parameters() if parameter.grad is not None]
            seen.append(float(torch.cat([grad.flatten() for grad in grads]).norm()))

    for clip in (None, 0.05, 1e6):
        train(Watched(), toy_rows(), config=TrainConfig(steps=1, batch_size=8, clip=clip))
    free, clipped, loose = seen
    assert free > 0.05
    assert clipped == pytest.approx(0.05, rel=1e-4)
    assert loose == pytest.approx(free)


def test_progress_and_log_tell_the_same(tmp_path) -> None:
    told: list[Progress] = []
    history = train(Toy(), toy_rows(), config=CONFIG, out=tmp_path, progress=told.append)
    assert [p.step for p in told] == history.series("loss")[0]
    assert [p.numbers["only"]["l0"] for p in told] == history.series("l0")[1]
    assert told[0].eta_s > 0
    assert told[-1].eta_s == 0
    assert all(p.rows_per_s > 0 for p in told)
    assert read_log(tmp_path / "log.jsonl") == list(history.lines)
    assert set(without_clock(history.lines)[0]) == {"step", "rows", "object", "lr", "loss", "l0", "asked"}


def test_numbers_that_are_not_finite_are_logged_as_none(tmp_path) -> None:
    class Odd(Toy):
        def loss(self, x, step):
            loss, numbers = super().loss(x, step)
            return loss, numbers | {"aux": float("nan"), "main": 2 * loss}

    train(Odd(), toy_rows(), config=CONFIG, out=tmp_path)
    line = read_log(tmp_path / "log.jsonl")[0]
    assert line["aux"] is None
    assert line["main"] == pytest.approx(2 * line["loss"])


def test_rows_come_in_the_dtype_of_the_object() -> None:
    toy = Toy()
    rows = ArrayRows(toy_rows().x.bfloat16())
    train(toy, rows, config=CONFIG)
    assert toy.weight.dtype == torch.float32
    assert torch.isfinite(toy.weight).all()


@pytest.mark.parametrize("rows", [ArrayRows(torch.ones(40, 8)), ArrayRows(torch.zeros(40, 8)), toy_rows()])
@pytest.mark.parametrize("batch_size", [1, 40])
def test_constant_rows_and_a_batch_of_one_leave_finite_weights(rows, batch_size) -> None:
    toy = Toy()
    train(toy, rows, config=TrainConfig(steps=5, batch_size=batch_size, lr=0.01, clip=1.0))
    assert all(torch.isfinite(tensor).all() for tensor in toy.state().values())


def test_outside_the_main_thread() -> None:
    toy, twin = Toy(), Toy()
    thread = threading.Thread(target=train, args=(toy, toy_rows()), kwargs={"config": CONFIG})
    thread.start()
    thread.join()
    train(twin, toy_rows(), config=CONFIG)
    assert_same(toy, twin)
