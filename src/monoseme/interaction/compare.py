"""Other people's models: whether a benchmark's score falls with the distance of R = layers / hidden from an interval.

Few models, chosen by whoever made the table: so every correlation stands beside its bootstrap interval, the range it
takes when one model is left out, and a permutation p. The shipped table lists scores as model cards and technical
reports give them; one model's score differs by a factor of two between protocols, so protocols are not mixed unless
that is said.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import permutations
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.interaction.correlation import correlate

__all__ = [
    "GROUPS",
    "INTERVAL",
    "GroupComparison",
    "ModelRow",
    "compare_models",
    "distances",
    "read_models",
    "small_llms",
]

INTERVAL = (0.023, 0.047)  # of R, arXiv 2605.27989
GROUPS: Mapping[str, tuple[float, float]] = {
    "below 1B": (0.0, 0.999),
    "1 to 2.5B": (1.0, 2.5),
    "2.5 to 5B": (2.501, 5.0),
    "5 to 10B": (5.001, 10.0),
}
FEWEST = 4
EXACT = 8  # models up to which all orders are tried, 40,320
ORDERS = 9999


@dataclass(frozen=True)
class ModelRow:
    """One model under one protocol.

    Attributes
    ----------
    model, layers, hidden
        Name, layers, and width of the residual stream.
    score
        Of a benchmark; higher is better.
    protocol
        Who asked how: scores are comparable within one.
    params_b
        Size in 10⁹ parameters; NaN where not known, which is in no group.
    source
        Where the score was read.
    """

    model: str
    layers: int
    hidden: int
    score: float
    protocol: str
    params_b: float = math.nan
    source: str = ""

    @property
    def ratio(self) -> float:
        """R = layers / hidden."""
        return self.layers / self.hidden


@dataclass(frozen=True)
class GroupComparison:
    """The models of one size group.

    Attributes
    ----------
    name, rows, distance
        The group, its models, and the distance of each to the interval.
    pearson, spearman
        Of score with distance, with bootstrap intervals over models; negative: nearer is better.
    leave_one_out_low, leave_one_out_high
        Least and greatest Pearson correlation when one model is left out, and which.
    permutation_p
        Share of orders of the scores, two-sided, whose Pearson correlation is at least as large in size.
    """

    name: str
    rows: tuple[ModelRow, ...]
    distance: tuple[float, ...]
    pearson: Outcome
    spearman: Outcome
    leave_one_out_low: Outcome
    leave_one_out_high: Outcome
    permutation_p: Outcome

    def outcomes(self) -> tuple[Outcome, ...]:
        """The numbers, in order."""
        ends = self.leave_one_out_low, self.leave_one_out_high
        return self.pearson, self.spearman, *ends, self.permutation_p


def compare_models(
    table: Sequence[ModelRow],
    interval: tuple[float, float] = INTERVAL,
    groups: Mapping[str, tuple[float, float]] = GROUPS,
    *,
    mixed: bool = False,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[GroupComparison, ...]:
    """Correlate scores with distances to an interval of R: all models first, then each size group.

    Parameters
    ----------
    table
        One row a model, such as the rows of one protocol of `small_llms`.
    interval
        Of R. The distance is 0 inside, else that to the nearer end.
    groups
        Sizes in 10⁹ parameters from and to, ends included, by name. In a group of fewer than four models, or of equal
        distances, the numbers are not known.
    mixed
        Take rows of several protocols as one table.
    draws, seed
        Resamples of models and orders of scores, and their stream.

    Raises
    ------
    UserError
        For fewer than four models, a model twice, equal scores or distances, or several protocols unless `mixed`.
    """
    _check(table, interval, mixed)
    members = {"all": list(table)} | {
        name: [row for row in table if low <= row.params_b <= high] for name, (low, high) in groups.items()
    }
    return tuple(_group(name, rows, interval, draws, seed) for name, rows in members.items())


def distances(table: Sequence[ModelRow], interval: tuple[float, float] = INTERVAL) -> Float64[np.ndarray, " n"]:
    """Distance of each model's R to the interval; 0 inside."""
    ratio = np.array([row.ratio for row in table], dtype=np.float64)
    return np.maximum(np.maximum(interval[0] - ratio, ratio - interval[1]), 0.0)


def _check(table: Sequence[ModelRow], interval: tuple[float, float], mixed: bool) -> None:
    if not 0 < interval[0] <= interval[1]:
        raise refuse("interval", "be two positive R, the smaller first", interval, "For example (0.023, 0.047).")
    if len(table) < FEWEST:
        raise refuse("table", f"have at least {FEWEST} rows", len(table), "A correlation of fewer says nothing.")
    protocols = Counter(row.protocol for row in table)
    if len(protocols) > 1 and not mixed:
        got = ", ".join(f"{name} ({count})" for name, count in protocols.items())
        raise refuse("table", "be of one protocol", got, "Pick the rows of one, or pass mixed=True.")
    name, times = Counter(row.model for row in table).most_common(1)[0]
    if times > 1:
        raise refuse("table", "have one row a model", f"{name} {times} times", "Pick one of its scores.")
    for row in table:
        if row.layers < 1 or row.hidden < 1 or not math.isfinite(row.score):
            raise refuse("table", "hold layers, hidden and a score", f"{row.model} without", "Correct that row.")
    if len({row.score for row in table}) == 1:
        raise refuse("table", "have scores that differ", f"{table[0].score} for all", "Add models.")
    if len(set(distances(table, interval).tolist())) == 1:
        raise refuse(
            "table", "have distances to the interval that differ", "one for all", "Add models of other shapes."
        )


def _group(
    name: str, rows: Sequence[ModelRow], interval: tuple[float, float], draws: int, seed: int
) -> GroupComparison:
    x, y = distances(rows, interval), np.array([row.score for row in rows], dtype=np.float64)
    pearson, spearman = correlate(x, y, draws=draws, seed=seed)
    ends = _left_out(rows, x, y) if pearson.known else [unknown(end, "1", pearson.note) for end in ENDS]
    p = _permuted(x, y, seed) if pearson.known else unknown("permutation_p", "1", pearson.note)
    return GroupComparison(name, tuple(rows), tuple(x.tolist()), pearson, spearman, ends[0], ends[1], p)


ENDS = ("leave_one_out_low", "leave_one_out_high")


def _left_out(rows: Sequence[ModelRow], x: np.ndarray, y: np.ndarray) -> list[Outcome]:
    found = {}
    for i, row in enumerate(rows):
        keep = np.arange(len(rows)) != i
        if np.ptp(x[keep]) > 0 and np.ptp(y[keep]) > 0:
            found[float(np.corrcoef(x[keep], y[keep])[0, 1])] = row.model
    if not found:
        return [unknown(end, "1", "a column is constant whichever model is left out") for end in ENDS]
    return [
        Outcome(end, value, "1", n=len(rows), n_unit="models", note=f"without {found[value]}")
        for end, value in zip(ENDS, (min(found), max(found)), strict=True)
    ]


def _permuted(x: np.ndarray, y: np.ndarray, seed: int) -> Outcome:
    n = len(x)
    if n <= EXACT:
        orders, how = np.array(list(permutations(range(n)))), "all orders"
    else:
        stream = rng(seed, "permutation")
        orders, how = (
            stream.permuted(np.tile(np.arange(n), (ORDERS, 1)), axis=1),
            f"{ORDERS} random orders and this one",
        )
    products = (y - y.mean())[orders] @ (x - x.mean())
    seen = abs(float((y - y.mean()) @ (x - x.mean())))
    hits = int((np.abs(products) >= seen * (1 - 1e-9)).sum())
    value = hits / len(orders) if n <= EXACT else (hits + 1) / (ORDERS + 1)
    return Outcome("permutation_p", value, "1", better="lower", n=n, n_unit="models", note=f"two-sided, {how}")


def small_llms() -> tuple[ModelRow, ...]:
    """Return the shipped table: MMLU-Pro of small language models, as model cards and technical reports state it.

    Shapes are those of the models' public configurations. Several rows a model where several protocols scored it.
    """
    with resources.as_file(resources.files("monoseme.interaction") / "small_llms.csv") as path:
        return read_models(path)


def read_models(path: Path | str) -> tuple[ModelRow, ...]:
    """Read a CSV with the columns model, layers, hidden, score, protocol, and perhaps params_b and source."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("path", "be a CSV file", f"{path} ({error})", "Check the path.") from None
    return tuple(_row(path, i + 2, row) for i, row in enumerate(rows))


def _row(path: Path, line: int, row: Mapping[str, str]) -> ModelRow:
    try:
        size = float(row.get("params_b") or "nan")
        shape = int(row["layers"]), int(row["hidden"])
        return ModelRow(row["model"], *shape, float(row["score"]), row["protocol"], size, row.get("source") or "")
    except (KeyError, ValueError, TypeError) as error:
        got = f"{path}, line {line} ({type(error).__name__}: {error})"
        raise refuse("path", "have model, layers, hidden, score, protocol", got, "Correct that line.") from None
