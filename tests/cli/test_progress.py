"""On a terminal one line is rewritten; elsewhere lines are few, and the last one is always there."""

import io
import sys

import pytest
import torch
from torch import Tensor

from monoseme.cli.pictures import thinned
from monoseme.cli.progress import Ticker, of_harvest
from monoseme.store import Entry, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Ticker() as ticker:
        ticker.show("a long line " * 20)
        ticker.show("too soon")
        ticker.show("done", final=True)
    first, last = stream.getvalue().split("\r")[1:]
    assert len(first) == 39
    assert last == "done".ljust(39) + "\n"


def test_a_file_gets_the_first_and_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Ticker() as ticker:
        tell = of_harvest(ticker, "toy: ")
        for done in range(16, 49, 16):
            tell(Progress(done, 48, done * 10, 1234.5, (48 - done) * 3.0))
    assert stream.getvalue().splitlines() == [
        "toy: 16 of 48 samples, 1,234 rows/s, 1 min 36 s left",
        "toy: 48 of 48 samples, 1,234 rows/s, 0 s left",
    ]


class Split:
    """A source that splits itself; behind each entry lies its number."""

    def __init__(self) -> None:
        splits = ["train"] * 80 + ["test"] * 4
        self.entries = [Entry(str(i), str(i), split) for i, split in enumerate(splits)]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Tensor:
        return torch.tensor(i)


def test_fewer_samples_still_come_from_every_split() -> None:
    whole = Split()
    few = thinned(whole, 8)
    assert [int(entry.id) for entry in few.entries] == [few[i] for i in range(len(few))]
    assert len(few) == 8
    assert sum(entry.split == "test" for entry in few.entries) == 1
    assert thinned(whole, 84) is whole
