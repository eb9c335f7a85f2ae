"""What a sweep goes through: points of a grid, each with every seed, each with a name for its folder."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from monoseme.core.errors import refuse

__all__ = ["Trial", "grid", "trials_of"]

SEED = "seed"
SLUG = 80  # characters of a folder's name that are for people; the hash behind them is what counts


def grid(**lists: Iterable[Any]) -> list[dict[str, Any]]:
    """Every combination of the values listed for each setting; the last setting changes fastest.

    Examples
    --------
    >>> grid(k=[4, 8], sign=["free"])
    [{'k': 4, 'sign': 'free'}, {'k': 8, 'sign': 'free'}]
    """
    values = {}
    for name, given in lists.items():
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise refuse(name, "be a list of values", repr(given), f"Write [{given!r}] for a single one.")
        values[name] = list(given)
        if not values[name]:
            raise refuse(name, "list at least one value", "none", "An empty list leaves no point at all.")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


@dataclass(frozen=True)
class Trial:
    """A point with a seed: what is run, and kept, as one.

    Attributes
    ----------
    settings
        The point: plain JSON values by name.
    seed
        One of the sweep's seeds.
    """

    settings: Mapping[str, Any]
    seed: int

    @property
    def point(self) -> dict[str, Any]:
        """What the function gets: a fresh copy of the settings, and the seed under ``"seed"``."""
        return {**json.loads(json.dumps(dict(self.settings))), SEED: self.seed}

    @cached_property
    def name(self) -> str:
        """Name of the folder: readable, and different for every trial; it does not depend on the order of settings.

        Examples
        --------
        >>> Trial({"k": 4, "data": "a/b c"}, 1).name
        'data=a-b-c_k=4_seed=1-8b36e15172c3'
        """
        text = json.dumps(self.point, sort_keys=True, allow_nan=False)
        words = [f"{_word(name)}={_word(value)}" for name, value in sorted(self.point.items())]
        slug = "_".join(words)[:SLUG].strip("-.=_")
        return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def label(self, names: Iterable[str]) -> str:
        """Settings `names` as a person reads them."""
        return ", ".join(f"{name} {_word(self.settings[name])}" for name in names if name in self.settings)


def _word(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text)[:40]


def trials_of(points: Iterable[object], seeds: Iterable[object]) -> tuple[Trial, ...]:
    """Every point with every seed, in the order given; whatever has no plain JSON form, or comes twice, is refused."""
    points, seeds = list(points), list(seeds)
    if not points:
        raise refuse("points", "hold at least one point", "none", "Build them with grid(...).")
    for seed in seeds or ["none"]:
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool):
            raise refuse("seeds", "be whole numbers, at least one", repr(seed), "Write (0,) for a single seed.")
    found: dict[str, Trial] = {}
    for point in points:
        settings = _settings(point)
        for seed in seeds:
            trial = Trial(settings, int(seed))  # pyright: ignore[reportArgumentType]
            if trial.name in found:
                raise refuse("points and seeds", "differ", f"{trial.point} twice", "Leave one out; it would run once.")
            found[trial.name] = trial
    return tuple(found.values())


def _settings(point: object) -> dict[str, Any]:
    if not isinstance(point, Mapping) or not all(isinstance(name, str) and name for name in point):
        raise refuse("points", "be mappings from names to values", repr(point), "Build them with grid(...).")
    if SEED in point:
        raise refuse("points", "leave the seed to seeds=", f"{point[SEED]!r} for seed", "Pass seeds=(0, 1, 2).")
    return {name: _plain(value, name) for name, value in point.items()}


def _plain(value: object, name: str) -> Any:
    """Return `value` as JSON will give it back, so that a resumed sweep and another process see the same."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(part, name) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(part, name) for part in value]
    rule = "hold plain values: text, finite numbers, true or false, None, and lists of them"
    raise refuse("points", rule, f"{value!r} for {name}", "Pass a name, a path as text, or a number.")
