"""A number that says whether to believe it: value, unit, interval, direction, provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Outcome", "plural", "unknown"]


@dataclass(frozen=True)
class Outcome:
    """One measured quantity, or an honest "not known".

    Attributes
    ----------
    name
        The field's standard term, for example ``"fvu"``.
    value
        The number; ``None`` when it is not known, and then `note` says why.
    unit
        ``"share"``, ``"blocks/row"``, ``"bits/row"``, ``"1"`` for a pure ratio, and so on.
    low, high
        Confidence interval at level `confidence`; ``None`` when none was computed.
    better
        ``"lower"``, ``"higher"``, or ``None`` when neither is.
    n
        Number of independent units behind the interval (samples, factors, seeds).
    n_unit
        What these units are: ``"pictures"``, ``"rows"``, ``"factors"``.
    note
        How it was measured, or why it is unknown. One line.
    provenance
        Where it came from: data, split, seed, versions. Plain JSON values.
    """

    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    better: Literal["lower", "higher"] | None = None
    n: int | None = None
    n_unit: str = ""
    note: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether there is a finite value."""
        return self.value is not None and math.isfinite(self.value)

    def __str__(self) -> str:
        """Value with interval and unit.

        Examples
        --------
        >>> str(Outcome("fvu", 0.1234567, "1", low=0.12, high=0.13))
        '0.1235 [0.12, 0.13]'
        >>> str(Outcome("dead", None, "share", note="no rows"))
        'not known (no rows)'
        """
        if self.value is None or not math.isfinite(self.value):
            return f"not known ({self.note or 'not computed'})"
        text = f"{self.value:.4g}"
        if self.low is not None and self.high is not None:
            text += f" [{self.low:.4g}, {self.high:.4g}]"
        return text if self.unit in ("1", "") else f"{text} {self.unit}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; non-finite numbers become ``None``, which JSON can hold."""
        plain = asdict(self)
        for key in ("value", "low", "high"):
            number = plain[key]
            plain[key] = None if number is None or not math.isfinite(number) else float(number)
        plain["provenance"] = dict(self.provenance)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Outcome:
        """Inverse of `to_json`."""
        return cls(**plain)


def plural(n: int, units: str) -> str:
    """Write a unit, given in the plural, as it goes with the count `n`.

    Examples
    --------
    >>> plural(3, "documents"), plural(1, "documents"), plural(1, "groups of samples")
    ('documents', 'document', 'group of samples')
    """
    head, space, rest = units.partition(" ")
    return f"{head.removesuffix('s')}{space}{rest}" if n == 1 else units


def unknown(name: str, unit: str, why: str) -> Outcome:
    """Return the outcome of a quantity that is not known, with the reason."""
    return Outcome(name, None, unit, note=why)
