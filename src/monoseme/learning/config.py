"""What a training run is, apart from the objects and the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from monoseme.core.errors import closest, refuse
from monoseme.learning.schedule import Schedule

__all__ = ["TrainConfig"]


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run.

    Attributes
    ----------
    steps
        Optimiser steps.
    batch_size
        Rows a step. At most the number of rows; batches straddle epochs, so no row is dropped.
    lr
        Peak learning rate, or one for each object by name.
    optimiser
        ``"adam"``, or ``"muon"`` for the 2-D parameters with Adam for the others.
    schedule
        Factor on `lr` over the steps.
    weight_decay
        Decoupled from the gradient (AdamW, Loshchilov & Hutter 2019): every parameter is multiplied by
        1 - lr · factor · weight_decay at each step. 0 for none.
    clip
        Largest norm of an object's whole gradient; longer ones are scaled down. ``None`` for no clipping.
    seed
        Order of the rows.
    log_every
        Steps between two logged lines; the first and the last step are always logged.
    checkpoint_every
        Steps between two checkpoints. The only field that may differ when a run is resumed.
    """

    steps: int
    batch_size: int = 1024
    lr: float | Mapping[str, float] = 1e-3
    optimiser: Literal["adam", "muon"] = "adam"
    schedule: Schedule = field(default_factory=Schedule)
    weight_decay: float = 0.0
    clip: float | None = None
    seed: int = 0
    log_every: int = 50
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "log_every", "checkpoint_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise refuse(name, "be at least 1", repr(value), "Give a positive whole number.")
        if not isinstance(self.seed, int):
            raise refuse("seed", "be a whole number", repr(self.seed), "0 is as good as any.")
        for rate in self.lr.values() if isinstance(self.lr, Mapping) else [self.lr]:
            if not (_is_number(rate) and rate > 0 and math.isfinite(rate)):
                raise refuse("lr", "be positive and finite", self.lr, "Start from 1e-3.")
        if self.optimiser not in ("adam", "muon"):
            raise refuse("optimiser", 'be "adam" or "muon"', self.optimiser, "Choose one of the two.")
        if not (_is_number(self.weight_decay) and 0 <= self.weight_decay < math.inf):
            raise refuse("weight_decay", "be 0 or more, and finite", self.weight_decay, "Use 0 for none.")
        if self.clip is not None and not (_is_number(self.clip) and self.clip > 0 and math.isfinite(self.clip)):
            raise refuse("clip", "be positive and finite, or None for no clipping", self.clip, "Start from 1.0.")

    def rates(self, names: Iterable[str]) -> dict[str, float]:
        """Peak learning rate of every object."""
        names = list(names)
        if not isinstance(self.lr, Mapping):
            return dict.fromkeys(names, float(self.lr))
        if wrong := sorted(self.lr.keys() - set(names)):
            raise refuse("lr", "name objects of this run", wrong[0], closest(wrong[0], names))
        if missing := sorted(set(names) - self.lr.keys()):
            raise refuse("lr", "have one rate for each object", f"none for {missing[0]}", "Add it, or give one number.")
        return {name: float(self.lr[name]) for name in names}

    def identity(self) -> dict[str, Any]:
        """Plain JSON values of all that decides the outcome of a run: every field but `checkpoint_every`."""
        plain = asdict(self)
        # numbers may come as NumPy's, which JSON does not know
        plain["lr"] = self.rates(self.lr) if isinstance(self.lr, Mapping) else float(self.lr)
        plain["clip"] = None if self.clip is None else float(self.clip)
        del plain["checkpoint_every"]
        # what older runs did not know is named only where it is used: their checkpoints are still theirs
        plain["weight_decay"] = float(self.weight_decay)
        if not self.weight_decay:
            del plain["weight_decay"]
        if self.schedule.start is None:
            del plain["schedule"]["start"]
        return plain


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
