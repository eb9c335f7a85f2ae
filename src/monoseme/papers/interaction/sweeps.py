"""The shape sweeps of 2605.27989, small enough for two cores; and the one at the authors' size, for who has the time.

The paper's texts and pictures (WikiText-103, SVHN) do not come with any package. Brown and the digits stand in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from monoseme.core.errors import refuse
from monoseme.interaction.shapes import DEPTHS, ShapeRow, shapes
from monoseme.interaction.sweeping import Plan
from monoseme.interaction.tasks import Task, digits_task, narma_task, text_task
from monoseme.interaction.training import Training
from monoseme.store import brown

__all__ = ["SWEEPS", "Sweep", "brown_task", "paper_size", "wikitext_task"]

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Sweep:
    """A plan with its budgets and depths.

    Attributes
    ----------
    plan
        What is the same for all shapes.
    depths
        Budget, parameters with embeddings, → layers tried.
    seeds
        Of weights and order.
    """

    plan: Plan
    depths: Mapping[int, tuple[int, ...]]
    seeds: tuple[int, ...] = SEEDS

    def rows(self) -> list[ShapeRow]:
        """All shapes."""
        make = functools.partial(shapes, self.plan.family, **self.plan.sizes)
        return [row for budget, depths in self.depths.items() for row in make(budget, depths=depths)]


def brown_task() -> Task:
    """Next byte in the Brown corpus, 256 at a time."""
    texts = brown()
    pairs = [(entry.id, texts[i]) for i, entry in enumerate(texts.entries)]
    return text_task(pairs, "Brown corpus, 500 documents, stand-in for WikiText-103")


def wikitext_task(folder: str) -> Task:
    """Next byte in WikiText-103 (raw), from a folder that holds train, valid and test as text files."""
    sides = {}
    for side, word in (("train", "train"), ("validation", "valid"), ("test", "test")):
        found = sorted(path for path in Path(folder).glob("*") if path.is_file() and word in path.name)
        if not found:
            raise refuse("folder", f"hold a text file with {word!r} in its name", folder, "Unpack WikiText-103 raw.")
        sides[side] = [(path.name, path.read_text()) for path in found]
    return text_task(sides, "WikiText-103, raw")


def paper_size(folder: str) -> Sweep:
    """The authors' budget sweep: 0.3 to 10 million parameters, 90 bytes a parameter; days on a large GPU."""
    training = Training(90, "parameters", batch_size=64, lr=3e-4, weight_decay=0.01, warmup=0.02)
    plan = Plan("gpt", functools.partial(wikitext_task, folder), training)
    millions = (0.3, 0.6, 1.0, 1.3, 1.6, 2.0, 2.3, 2.7, 3.0, 5.0, 10.0)
    return Sweep(plan, {round(1e6 * m): DEPTHS for m in millions}, (0,))


# Learning rates: the best of 1e-3, 3e-3 and 1e-2 on two shapes with another seed, then the same for all shapes.


def _gpt() -> Sweep:
    training = Training(20, "parameters", batch_size=16, lr=3e-3, weight_decay=0.01, warmup=0.05)
    # heads of four allow few widths at 60,000: six layers would leave a quarter of it
    depths = {60_000: (1, 2, 3, 4, 5, 8), 120_000: (1, 2, 3, 4, 6, 8), 240_000: (1, 2, 3, 4, 6, 8)}
    return Sweep(Plan("gpt", brown_task, training), depths)


def _cnn() -> Sweep:
    training = Training(15, "epochs", batch_size=32, lr=1e-2, weight_decay=0.01)
    plan = Plan("cnn", digits_task, training, sizes={"channels": 1, "side": 8, "outputs": 10})
    return Sweep(plan, {20_000: (1, 2, 3, 4, 6, 8, 12)})


def _vit() -> Sweep:
    training = Training(40, "epochs", batch_size=32, lr=3e-3, weight_decay=0.01)
    sizes = {"channels": 1, "side": 8, "patch": 2, "outputs": 10, "head": 2}
    return Sweep(Plan("vit", digits_task, training, sizes=sizes), {40_000: (1, 2, 3, 4, 6, 8)})


def _gru() -> Sweep:
    training = Training(15, "epochs", batch_size=32, lr=3e-3, weight_decay=0.01)
    return Sweep(Plan("gru", narma_task, training), {20_000: (1, 2, 3, 4, 5, 6)})


SWEEPS: dict[str, Callable[[], Sweep]] = {"gpt": _gpt, "cnn": _cnn, "vit": _vit, "gru": _gru}
