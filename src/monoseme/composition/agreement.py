"""Whether judges agree beyond chance: Cohen's κ of two, Fleiss' κ of several, bootstrap intervals over pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.composition.judges.protocol import Answer, Verdict
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.core.stats import wilson

__all__ = ["Agreement", "agreement"]

WORDS: tuple[Answer, ...] = ("yes", "no", "unsure")
DRAWS = 1000


@dataclass(frozen=True)
class Agreement:
    """Of several judges on the same pictures; higher is more.

    Attributes
    ----------
    kappa
        Cohen's, by pair of judges: agreement above what their own shares of answers give by chance; 1 is all of it.
    observed
        Share of pictures on which a pair gives one answer.
    fleiss
        Fleiss' κ of all judges together.
    table
        Counts by pair: rows the first's yes, no, unsure; columns the second's.
    pictures
        Pictures that count: those with a valid answer of every judge.
    """

    kappa: Mapping[tuple[str, str], Outcome]
    observed: Mapping[tuple[str, str], Outcome]
    fleiss: Outcome
    table: Mapping[tuple[str, str], Int64[np.ndarray, "3 3"]]
    pictures: int

    def text(self) -> str:
        """The report: a line a pair, then all together."""
        lines = [f"{a} | {b}: kappa {k}, same {self.observed[a, b]}" for (a, b), k in self.kappa.items()]
        return "\n".join([*lines, f"all: Fleiss' kappa {self.fleiss}", f"{self.pictures} pictures"])


def agreement(verdicts: Mapping[str, Sequence[Verdict]], *, unsure: str = "own", seed: int = 0) -> Agreement:
    """Compare judges on the same pictures, in the same order.

    Parameters
    ----------
    verdicts
        By name of the judge. A picture with an "invalid" answer of any is left out for all.
    unsure
        ``"own"``: an answer of its own; ``"no"``: counts as no, as scores count it; ``"leave out"``: as invalid.
    """
    names = list(verdicts)
    if len(names) < 2:
        raise refuse("verdicts", "be of at least two judges", len(names), "One agrees with itself.")
    lengths = {len(found) for found in verdicts.values()}
    if len(lengths) > 1:
        raise refuse("verdicts", "be equally many of every judge", sorted(lengths), "Give all the same pictures.")
    if unsure not in ("own", "no", "leave out"):
        raise refuse("unsure", "be 'own', 'no' or 'leave out'", repr(unsure), "Scores count it as no.")
    dropped = ("invalid", "unsure") if unsure == "leave out" else ("invalid",)
    answers = [[one.answer for one in verdicts[name]] for name in names]
    kept = [row for row in zip(*answers, strict=True) if not any(answer in dropped for answer in row)]
    codes = np.array([[_code(a, unsure) for a in row] for row in kept], dtype=np.int64).reshape(len(kept), len(names))
    pairs = list(combinations(range(len(names)), 2))
    tables = {(names[i], names[j]): _table(codes[:, i], codes[:, j]) for i, j in pairs}
    draws = rng(seed, "agreement").integers(0, max(len(codes), 1), (DRAWS, len(codes)))
    kappas, same = {}, {}
    for i, j in pairs:
        key = (names[i], names[j])
        again = [cohen(_table(codes[d, i], codes[d, j])) for d in draws] if len(codes) > 1 else []
        kappas[key] = _outcome("kappa", cohen(tables[key]), again, len(codes))
        hits = int(np.trace(tables[key]))
        same[key] = _share(hits, len(codes))
    counts = np.stack([(codes == word).sum(1) for word in range(len(WORDS))], 1)
    again = [fleiss(counts[d]) for d in draws] if len(codes) > 1 else []
    return Agreement(kappas, same, _outcome("fleiss_kappa", fleiss(counts), again, len(codes)), tables, len(codes))


def cohen(table: Int64[np.ndarray, "w w"]) -> float:
    """(p_o - p_e) ÷ (1 - p_e); NaN where chance alone agrees always, or there is no picture."""
    total = table.sum()
    if total == 0:
        return float("nan")
    observed, chance = np.trace(table) / total, float(table.sum(0) @ table.sum(1)) / total**2
    return float((observed - chance) / (1 - chance)) if chance < 1 else float("nan")


def fleiss(counts: Int64[np.ndarray, "n w"]) -> float:
    """Fleiss (1971): counts of every answer by picture, equally many judges each; NaN where one answer is all."""
    if not len(counts):
        return float("nan")
    judges = int(counts[0].sum())
    observed = float(((counts**2).sum(1) - judges).mean() / (judges * (judges - 1)))
    chance = float(((counts.sum(0) / counts.sum()) ** 2).sum())
    return (observed - chance) / (1 - chance) if chance < 1 else float("nan")


def _table(a: Int64[np.ndarray, " n"], b: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "3 3"]:
    found = np.zeros((len(WORDS), len(WORDS)), dtype=np.int64)
    np.add.at(found, (a, b), 1)
    return found


def _code(answer: Answer, unsure: str) -> int:
    return WORDS.index("no" if answer == "unsure" and unsure == "no" else answer)


def _outcome(name: str, value: float, again: Sequence[float] | Float64[np.ndarray, " d"], n: int) -> Outcome:
    if not np.isfinite(value):
        return unknown(name, "1", "no picture with valid answers" if n == 0 else "every answer is the same")
    finite = np.asarray(again, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) > DRAWS // 2 else (None, None)
    ends = (None, None) if low is None or high is None else (float(low), float(high))
    return Outcome(name, value, "1", *ends, better="higher", n=n, n_unit="pictures")


def _share(hits: int, n: int) -> Outcome:
    if n == 0:
        return unknown("observed", "share", "no picture with valid answers")
    low, high = wilson(hits, n)
    return Outcome("observed", hits / n, "share", low, high, better="higher", n=n, n_unit="pictures")
