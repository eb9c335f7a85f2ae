"""Rules of acceptance: a closed grammar of five kinds, numbers and names of quantities. Nothing is evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry

__all__ = ["FIELDS", "Rule", "RuleResult", "only_fields", "parse_rule"]

Kind = Literal["at_least", "at_most", "within", "interval_contains", "greater_than"]
# the fields of each kind, beside `kind` and `of`; those with a default may be left out
FIELDS: dict[str, tuple[str, ...]] = {
    "at_least": ("value",),
    "at_most": ("value",),
    "within": ("value", "tolerance"),
    "interval_contains": ("value",),
    "greater_than": ("other", "margin"),
}


@dataclass(frozen=True)
class Rule:
    """One condition on one quantity.

    Attributes
    ----------
    kind
        ``at_least``, ``at_most``: the value against `value`. ``within``: at most `tolerance` away from `value`.
        ``interval_contains``: the confidence interval holds `value`. ``greater_than``: above the quantity `other` by
        more than `margin`.
    of
        The quantity, by the name of its outcome.
    """

    kind: Kind
    of: str
    value: float = 0.0
    tolerance: float = 0.0
    other: str = ""
    margin: float = 0.0

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the outcomes it looks at."""
        return (self.of, self.other) if self.kind == "greater_than" else (self.of,)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the fields of its kind and no others."""
        return {"kind": self.kind, "of": self.of, **{name: getattr(self, name) for name in FIELDS[self.kind]}}

    def __str__(self) -> str:
        """Say the rule in words.

        Examples
        --------
        >>> str(Rule("within", "recovery", value=0.95, tolerance=0.02))
        'recovery within 0.02 of 0.95'
        """
        if self.kind == "within":
            return f"{self.of} within {self.tolerance:g} of {self.value:g}"
        if self.kind == "interval_contains":
            return f"interval of {self.of} contains {self.value:g}"
        if self.kind == "greater_than":
            return f"{self.of} greater than {self.other}" + (f" by more than {self.margin:g}" if self.margin else "")
        return f"{self.of} {self.kind.replace('_', ' ')} {self.value:g}"

    def holds(self, outcomes: Mapping[str, Outcome]) -> tuple[bool | None, str]:
        """Return whether it holds (None: cannot be said) and why.

        A value that was computed and is not finite fails: a run that diverged does not become "not run".
        """
        for name in self.quantities:
            if name not in outcomes:
                return None, f"{name} was not measured"
            value = outcomes[name].value
            if value is None:
                return None, f"{name} is {outcomes[name]}"
            if not math.isfinite(value):
                return False, f"{name} is {value}"
        value = outcomes[self.of].value
        assert value is not None
        if self.kind == "at_least":
            return value >= self.value, f"{value:.4g}"
        if self.kind == "at_most":
            return value <= self.value, f"{value:.4g}"
        if self.kind == "within":
            return abs(value - self.value) <= self.tolerance, f"{value:.4g}"
        if self.kind == "interval_contains":
            low, high = outcomes[self.of].low, outcomes[self.of].high
            if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
                return None, f"{self.of} has no interval"
            return low <= self.value <= high, f"[{low:.4g}, {high:.4g}]"
        other = outcomes[self.other].value
        assert other is not None
        return value > other + self.margin, f"{value:.4g} against {other:.4g}"


@dataclass(frozen=True)
class RuleResult:
    """A rule, whether it holds (None: cannot be said), and what was seen."""

    rule: str
    holds: bool | None
    seen: str


def only_fields(entry: Entry, allowed: set[str]) -> None:
    """Refuse a field that is not in `allowed`: a misspelt rule must not be silently left out."""
    for key in entry.mapping():
        if key not in allowed:
            raise refuse(f"{entry.path}: {key}", "be a known field", "an unknown one", closest(key, sorted(allowed)))


def parse_rule(entry: Entry, quantity: str) -> Rule:
    """Read a rule; `quantity` is what it looks at unless it says ``of``."""
    kind = entry.get("kind", str)
    if kind not in get_args(Kind):
        raise refuse(f"{entry.path}: kind", "be a known rule", repr(kind), closest(kind, FIELDS))
    only_fields(entry, {"kind", "of", *FIELDS[kind]})
    given: dict[str, Any] = {"of": quantity, **entry.mapping()}
    for key in FIELDS[kind]:
        if key not in given and key != "margin":
            raise refuse(f"{entry.path}: {key}", f"be there for {kind}", "nothing", f"Add {key} = ... to the rule.")
        if key in given and key != "other":
            number = given[key]
            if type(number) not in (int, float) or not math.isfinite(number):
                raise refuse(f"{entry.path}: {key}", "be a finite number", repr(number), "Write it without quotes.")
            given[key] = float(number)
    if not isinstance(given["of"], str) or not isinstance(given.get("other", ""), str):
        raise refuse(f"{entry.path}", "name quantities by text", entry.value, "Use the names of outcomes.")
    return Rule(**given)
