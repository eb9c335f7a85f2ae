"""Tasks: rows say what they should, sides share nothing, systems obey their equation, bad data are refused."""

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import RowSource
from monoseme.core.seeds import rng
from monoseme.interaction.byte_rows import ByteRows
from monoseme.interaction.tasks import Task, _narma, digits_task, narma_task, pictures_task, text_task

TEXT = bytes(range(1, 251)) * 3


def whole(rows: RowSource) -> torch.Tensor:
    return torch.cat([batch.x for batch in rows.in_order(7)])


def test_windows_of_bytes_predict_every_byte_once() -> None:
    rows = ByteRows(TEXT, 16)
    x = whole(rows)
    assert (len(rows), rows.d_in, len(x)) == (749 // 16, 32, 46)
    assert bytes(x[:, :16].flatten().int().tolist()) == TEXT[: 46 * 16]
    assert bytes(x[:, 16:].flatten().int().tolist()) == TEXT[1 : 46 * 16 + 1]
    torch.testing.assert_close(rows.moments.mean, x.double().mean(0))
    assert rows.moments.count == 46


def test_shuffled_windows_are_whole_epochs() -> None:
    rows = ByteRows(TEXT, 16)
    seen = torch.cat([rows.batch(step, 23, 0).sample for step in range(4)])
    assert sorted(seen[:46].tolist()) == sorted(seen[46:].tolist()) == list(range(46))
    assert not torch.equal(seen[:46], seen[46:])
    batch = rows.batch(1, 23, 0)
    torch.testing.assert_close(batch.x, whole(rows)[batch.sample])


def documents(n: int = 40) -> list[tuple[str, str]]:
    return [(f"d{i:02}", f"<{i:02}>" * 30) for i in range(n)]


def test_text_is_split_by_documents() -> None:
    task = text_task(documents(), "made up", window=8, held_out=0.1)
    names = {}
    for side in ("train", "validation", "test"):
        text = bytes(whole(getattr(task, side))[:, :8].flatten().int().tolist()).decode()
        names[side] = {text[i + 1 : i + 3] for i in range(len(text) - 3) if text[i] == "<"}
    assert [len(names[side]) for side in ("train", "validation", "test")] == [32, 4, 4]
    assert set.union(*names.values()) == {f"{i:02}" for i in range(40)}
    again = text_task(documents()[::-1], "made up", window=8, held_out=0.1)
    assert again.identity() == task.identity()
    assert text_task(documents(), "made up", window=8, held_out=0.1, seed=1).identity() != task.identity()


def test_a_split_that_is_given_is_kept() -> None:
    sides = {"train": documents(3), "validation": documents(1), "test": documents(2)}
    task = text_task(sides, "made up", window=8)
    assert [len(getattr(task, side)) for side in sides] == [45, 14, 30]


def test_losses_are_what_they_are_called() -> None:
    text = text_task(documents(), "made up", window=8)
    inputs, targets = text.split(text.train.batch(0, 5, 0).x)
    assert (inputs.shape, targets.shape, text.targets) == ((5, 8), (5, 8), 8)
    even = text.losses(torch.zeros(5, 8, 256), targets)
    torch.testing.assert_close(even, torch.full((5,), float(np.log(256))))
    sure = text.losses(50 * torch.nn.functional.one_hot(targets, 256).float(), targets)
    assert float(sure.max()) < 1e-6

    narma = narma_task(sequences=40, steps=35)
    inputs, targets = narma.split(narma.test.batch(0, 4, 0).x)
    assert (inputs.shape, targets.shape) == ((4, 35, 1), (4, 5))
    outputs = torch.zeros(4, 35, 1)
    outputs[:, 30:, 0] = targets
    assert float(narma.losses(outputs, targets).abs().max()) == 0
    torch.testing.assert_close(narma.losses(outputs + 2, targets), torch.full((4,), 4.0))


def test_digits_are_digits() -> None:
    task = digits_task()
    inputs, targets = task.split(whole(task.train))
    assert (tuple(inputs.shape[1:]), task.outputs) == ((1, 8, 8), 10)
    assert (len(task.train), len(task.validation), len(task.test)) == (1257, 270, 270)
    assert abs(float(inputs.mean())) < 1e-5
    assert abs(float(inputs.std()) - 1) < 1e-4
    # by nearest centroid of the training digits most of the test is right: pictures and classes belong together
    centroids = torch.stack([inputs[targets == k].mean(0) for k in range(10)]).flatten(1)
    held, known = task.split(whole(task.test))
    assert float((torch.cdist(held.flatten(1), centroids).argmin(1) == known).double().mean()) > 0.8


def test_narma_obeys_its_equation() -> None:
    u, y = _narma(5, 75, rng(0, "x"))
    assert (u.shape, y.shape) == ((5, 75), (5, 45))
    assert (y > 0).all()
    for t in range(29, 44):  # y[:, t] is the system's y at step t + 1 of those whose inputs are u[:, 30:]
        past = y[:, t - 29 : t + 1].sum(1)
        step = 0.2 * y[:, t] + 0.04 * y[:, t] * past + 1.5 * u[:, t + 30 - 28] * u[:, t + 31] + 0.001
        np.testing.assert_allclose(y[:, t + 1], step, rtol=1e-12)


def test_narma_is_standard_and_seeded() -> None:
    task, x = narma_task(sequences=200), whole(narma_task(sequences=200).train)
    assert torch.equal(x, whole(task.train))
    assert not torch.equal(x, whole(narma_task(sequences=200, seed=1).train))
    for part in (x[:, :80], x[:, 80:]):
        assert abs(float(part.mean())) < 1e-5
        assert abs(float(part.std()) - 1) < 1e-3


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("documents", lambda: text_task(documents(2), "x")),
        ("documents", lambda: text_task(documents(), "x", window=4000)),
        ("documents", lambda: text_task({"train": documents(3)}, "x")),
        ("held_out", lambda: text_task(documents(), "x", window=8, held_out=0.6)),
        ("window", lambda: ByteRows(b"abc", 3)),
        ("classes", lambda: pictures_task(torch.zeros(30, 1, 2, 2), [0] * 29, "x")),
        ("classes", lambda: pictures_task(torch.zeros(30, 1, 2, 2), [-1] * 30, "x")),
        ("steps", lambda: narma_task(steps=30)),
        ("sequences", lambda: narma_task(sequences=3)),
    ],
)
def test_bad_data_are_refused_in_one_line(argument, call) -> None:
    with pytest.raises(UserError, match=rf"^{argument} must [^\n]*$"):
        call()


def test_a_task_knows_what_it_is() -> None:
    task: Task = digits_task()
    assert "stand-in" in task.data
    assert task.identity()["train"]["rows"] == 1257
    assert digits_task(seed=1).identity() != task.identity()
