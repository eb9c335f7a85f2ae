"""Freeze the rules, run what is not yet measured, judge, and keep all of it: failures too.

A folder of a reproduction::

    plan.json        hashes of the claims, written before the first run and never again
    outcomes.json    quantity -> outcome, with the hash of the plan it was measured under; saved after every claim
    result.json      statuses, versions, seeds, commit, timings
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.files import only_writer, read_json, write_json
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry
from monoseme.records.claims import Claims, Verdict, judge, parse_claims
from monoseme.records.environment import environment
from monoseme.records.plan import OUTCOMES, freeze, verify

__all__ = ["Recipe", "Reproduction", "reproduce"]

# called with the ids of the claims wanted and a folder of its own to keep work in; returns quantity -> outcome.
# It may return more quantities than asked for: a claim all of whose quantities are there is not run again.
Recipe = Callable[[Sequence[str], Path], Mapping[str, Outcome]]
RESULT = "result.json"


@dataclass(frozen=True)
class Reproduction:
    """The result of a reproduction: one verdict a claim, and everything needed to judge it."""

    claims: Claims
    plan: str
    verdicts: tuple[Verdict, ...]
    environment: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def table(self) -> str:
        """Return the verdicts as lines of text: status, claim, measured, stated, and why."""
        rows = [("status", "claim", "measured", "stated", "why")]
        rows += [
            (v.status, v.claim.id, str(v.measured) if v.measured else "–", v.claim.stated or "–", _why(v))
            for v in self.verdicts
        ]
        wide = [max(len(row[i]) for row in rows) for i in range(5)]
        return "\n".join("  ".join(t.ljust(n) for t, n in zip(row, wide, strict=True)).rstrip() for row in rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        verdicts = [
            {
                "claim": v.claim.id,
                "hash": v.claim.hash,
                "status": v.status,
                "detail": v.detail,
                "rules": [asdict(rule) for rule in v.rules],
                "measured": _outcome_json(v.measured) if v.measured else None,
            }
            for v in self.verdicts
        ]
        plain = {key: dict(getattr(self, key)) for key in ("environment", "seconds", "failures")}
        head = {"format": "monoseme.reproduction", "version": 1, "plan": self.plan, "claims": self.claims.to_json()}
        return {**head, **plain, "verdicts": verdicts}

    @classmethod
    def load(cls, out: Path | str) -> Reproduction:
        """Read a reproduction. Statuses are computed again from the outcomes; those in the file are never trusted.

        Raises
        ------
        UserError
            When result.json or outcomes.json do not belong to the plan that was frozen.
        """
        out = Path(out)
        root = Entry(read_json(out / RESULT), str(out / RESULT))
        claims = parse_claims(Entry(root.get("claims", dict), f"{root.path}: claims"))
        plan = verify(claims, out)
        outcomes, seconds, failures = _read_outcomes(out, plan)
        verdicts = tuple(judge(claim, outcomes, failures.get(claim.id, "")) for claim in claims.claims)
        return cls(claims, plan, verdicts, root.get("environment", dict), seconds, failures)


def reproduce(claims: Claims, recipe: Recipe, out: Path | str, only: Sequence[str] | None = None) -> Reproduction:
    """Run the claims of a paper and judge them.

    Parameters
    ----------
    claims
        What is claimed, and the rules.
    recipe
        What measures it. It is called once a claim that lacks a quantity, and what it returns is saved before the next.
        An exception is recorded as the failure of that claim; the others still run.
    out
        Folder of the reproduction; run the same command again to go on where it stopped.
    only
        Ids of the claims to run now. All claims are judged, those not run as "not run".

    Returns
    -------
    Reproduction
        Also written to ``out/result.json``.
    """
    out = Path(out)
    wanted = claims.pick(tuple(only) if only is not None else None)
    with only_writer(out):
        plan = freeze(claims, out)
        outcomes, seconds, failures = _read_outcomes(out, plan)
        open_ = [claim for claim in wanted if not all(name in outcomes for name in claim.quantities)]
        if not open_ and (out / RESULT).exists():
            return Reproduction.load(
                out
            )  # nothing to measure: versions, machine and commit stay those of the measuring
        for claim in open_:
            if all(name in outcomes for name in claim.quantities):
                continue  # a claim before it brought them
            start = time.perf_counter()
            failures.pop(claim.id, None)
            try:
                outcomes.update(_checked(recipe([claim.id], out / "work")))
            except Exception as error:
                # whatever stops one claim is a result of that claim: it is kept, shown, and the others go on
                failures[claim.id] = " ".join(f"{type(error).__name__}: {error}".split())
            seconds[claim.id] = round(time.perf_counter() - start, 3)
            _write_outcomes(out, plan, outcomes, seconds, failures)
        for claim in claims.claims:  # what once failed, and was brought by another claim since, is no failure any more
            if all(name in outcomes for name in claim.quantities):
                failures.pop(claim.id, None)
        _write_outcomes(out, plan, outcomes, seconds, failures)
        verdicts = tuple(judge(claim, outcomes, failures.get(claim.id, "")) for claim in claims.claims)
        result = Reproduction(claims, plan, verdicts, environment(), seconds, failures)
        write_json(out / RESULT, result.to_json())
    return result


def _why(verdict: Verdict) -> str:
    """The detail, and the rules that do not hold in words: a reader of "not" asks first what was wanted."""
    needs = [f"needs {rule.rule} ({rule.seen})" for rule in verdict.rules if rule.holds is False]
    return "; ".join(part for part in (verdict.detail, *needs) if part)


def _checked(measured: object) -> Mapping[str, Outcome]:
    """Return what a recipe returned, when it is what the contract says: recipes are other people's code."""
    values = measured.items() if isinstance(measured, Mapping) else [("all of it", measured)]
    checked: dict[str, Outcome] = {}
    for name, outcome in values:
        if not isinstance(outcome, Outcome):
            raise refuse(
                "recipe", "return quantity -> Outcome", f"{name}: {type(outcome).__name__}", "Wrap the number."
            )
        checked[str(name)] = outcome
    return checked


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Like `Outcome.to_json`, but a value that is not finite is kept by name: it was computed, and it counts."""
    plain = outcome.to_json()
    if outcome.value is not None and not math.isfinite(outcome.value):
        plain["value"] = str(float(outcome.value))
    return plain


def _outcome(entry: Entry) -> Outcome:
    plain = dict(entry.mapping())
    if plain.get("value") in ("nan", "inf", "-inf"):
        plain["value"] = float(plain["value"])
    return Entry(plain, entry.path).outcome()


Kept = tuple[dict[str, Outcome], dict[str, float], dict[str, str]]


def _read_outcomes(out: Path, plan: str) -> Kept:
    if not (out / OUTCOMES).exists():
        return {}, {}, {}
    root = Entry(read_json(out / OUTCOMES), str(out / OUTCOMES))
    if root.get("plan", str) != plan:
        raise refuse(
            "out",
            "hold outcomes measured under its plan",
            f"{out / OUTCOMES} of another plan",
            "Start in a new folder.",
        )
    outcomes = {name: _outcome(entry) for name, entry in root.fields("outcomes")}
    return outcomes, dict(root.get("seconds", dict)), dict(root.get("failures", dict))


def _write_outcomes(out: Path, plan: str, outcomes: Mapping[str, Outcome], seconds: object, failures: object) -> None:
    plain = {name: _outcome_json(outcome) for name, outcome in outcomes.items()}
    write_json(out / OUTCOMES, {"plan": plan, "outcomes": plain, "seconds": seconds, "failures": failures})
