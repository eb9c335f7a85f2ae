"""Whether judges agree beyond chance: Cohen's κ of two, Fleiss' κ of several, bootstrap intervals over pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        Intervals are percentiles over resampled pictures. Where all answers agree no resample differs, so there is
        none; resamples with one answer only have no kappa and are left out, and the note says how many.
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
    square = (-1, len(WORDS), len(WORDS))
    kappas = {
        key: _outcome("kappa", table.reshape(-1), lambda cells: _cohens(cells.reshape(square)), seed)
        for key, table in tables.items()
    }
    same = {key: _share(int(np.trace(table)), len(codes)) for key, table in tables.items()}
    counts = np.stack([(codes == word).sum(1) for word in range(len(WORDS))], 1)
    kinds, often = np.unique(counts, axis=0, return_counts=True)  # pictures that were answered alike
    all_ = _outcome("fleiss_kappa", often, lambda numbers: _fleisses(kinds, numbers), seed)
    return Agreement(kappas, same, all_, tables, len(codes))


def cohen(table: Int64[np.ndarray, "w w"]) -> float:
    """(p_o - p_e) ÷ (1 - p_e); NaN where chance alone agrees always, or there is no picture."""
    return float(_cohens(table[None].astype(np.float64))[0])


def fleiss(counts: Int64[np.ndarray, "n w"]) -> float:
    """Fleiss (1971): counts of every answer by picture, equally many judges each; NaN where one answer is all."""
    if len(counts) and (counts.sum(1) != max(int(counts[0].sum()), 2)).any():
        raise refuse("counts", "be of two judges or more, as many for every picture", "others", "Leave pictures out.")
    return float(_fleisses(counts, np.ones((1, len(counts))))[0])


def _cohens(tables: Float64[np.ndarray, "d w w"]) -> Float64[np.ndarray, " d"]:
    totals = np.maximum(tables.sum((1, 2)), 1)
    observed = np.trace(tables, axis1=1, axis2=2) / totals
    return _beyond_chance(observed, (tables.sum(1) * tables.sum(2)).sum(1) / totals**2, tables.sum((1, 2)))


def _fleisses(kinds: Int64[np.ndarray, "k w"], often: Float64[np.ndarray, "d k"]) -> Float64[np.ndarray, " d"]:
    """Of samples in which pictures answered in this way come this often."""
    judges = kinds.sum(1).max(initial=2)
    totals = np.maximum(often.sum(1), 1)
    agreeing = ((kinds**2).sum(1) - judges) / (judges * (judges - 1))  # share of pairs of judges
    shares = often @ kinds / (totals[:, None] * judges)
    return _beyond_chance(often @ agreeing / totals, (shares**2).sum(1), often.sum(1))


def _beyond_chance(
    observed: Float64[np.ndarray, " d"], chance: Float64[np.ndarray, " d"], pictures: Float64[np.ndarray, " d"]
) -> Float64[np.ndarray, " d"]:
    """(p_o - p_e) ÷ (1 - p_e)."""
    room = 1 - chance
    told = (pictures > 0) & (room > 1e-12)  # rounding
    return np.divide(observed - chance, room, out=np.full(len(room), np.nan), where=told)


def _table(a: Int64[np.ndarray, " n"], b: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "3 3"]:
    found = np.zeros((len(WORDS), len(WORDS)), dtype=np.int64)
    np.add.at(found, (a, b), 1)
    return found


def _code(answer: Answer, unsure: str) -> int:
    return WORDS.index("no" if answer == "unsure" and unsure == "no" else answer)


def _outcome(
    name: str, counts: Int64[np.ndarray, " k"], formula: Callable[[np.ndarray], np.ndarray], seed: int
) -> Outcome:
    """A kappa with its interval; `counts` is how many pictures were answered in each way.

    Pictures drawn with repetition are in the same ways by a multinomial draw: the cost does not grow with pictures.
    """
    n = int(counts.sum())
    value = float(formula(counts[None].astype(np.float64))[0])
    if not np.isfinite(value):
        return unknown(name, "1", "no picture with valid answers" if n == 0 else "every answer is the same")
    found = Outcome(name, value, "1", better="higher", n=n, n_unit="pictures")
    if n < 2 or value == 1:
        return replace(found, note="no interval: " + ("one picture" if n < 2 else "no resample would differ"))
    again = formula(rng(seed, "agreement").multinomial(n, counts / n, DRAWS).astype(np.float64))
    lost = int((~np.isfinite(again)).sum())
    note = f"{lost} of {DRAWS} resamples have one answer only" if lost else ""
    if lost > DRAWS // 2:
        return replace(found, note=f"no interval: {note}")
    low, high = np.nanquantile(again, [0.025, 0.975])
    return replace(found, low=float(low), high=float(high), note=note)


def _share(hits: int, n: int) -> Outcome:
    if n == 0:
        return unknown("observed", "share", "no picture with valid answers")
    low, high = wilson(hits, n)
    return Outcome("observed", hits / n, "share", low, high, better="higher", n=n, n_unit="pictures")
