"""What a trial measured: outcomes, bare numbers and texts, as plain JSON and back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.parse import Entry

__all__ = ["Value", "as_outcome", "columns_of", "numbers_of", "pack", "unpack"]

Value = Outcome | float | int | str


def numbers_of(returned: object, settings: Iterable[str] = ()) -> dict[str, Value]:
    """Check what the function returned. A number that is not finite becomes an unknown outcome that says so."""
    if not isinstance(returned, Mapping):
        got = f"a {type(returned).__name__}"
        raise refuse("fn", "return a mapping from names to numbers", got, 'For example {"fvu": 0.2}.')
    found = {str(name): _value(str(name), value) for name, value in returned.items()}
    taken = [*settings, *(column for name, value in found.items() for column in columns_of(name, value))]
    if twice := [column for i, column in enumerate(taken) if column in taken[:i]]:
        raise refuse("fn", "return names that are no setting's or interval's", repr(twice[0]), "Rename that number.")
    return found


def columns_of(name: str, value: Value) -> tuple[str, ...]:
    """Columns of a table that a value fills: its name, and two more for an interval."""
    return (name, f"{name}_low", f"{name}_high") if isinstance(value, Outcome) else (name,)


def _value(name: str, value: Any) -> Value:
    if isinstance(value, (Outcome, str)):
        return value
    if hasattr(value, "item"):  # a scalar of NumPy or torch
        with contextlib.suppress(RuntimeError, ValueError):  # an array of several
            value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse("fn", "return outcomes, numbers and texts", f"{value!r} for {name}", "Leave it out, or use str().")
    return value if math.isfinite(value) else unknown(name, "1", f"the function gave {value}")


def as_outcome(name: str, value: Value) -> Outcome:
    """Return a bare number as an outcome without unit or interval."""
    if isinstance(value, Outcome):
        return value
    if isinstance(value, str):
        return unknown(name, "1", value)
    return Outcome(name, float(value), "1")


def pack(numbers: Mapping[str, Value]) -> list[list[Any]]:
    """Pairs of name and plain JSON value, in order."""
    return [[name, v.to_json() if isinstance(v, Outcome) else v] for name, v in numbers.items()]


def unpack(entries: Iterable[Entry]) -> dict[str, Value]:
    """Inverse of `pack`; a surprise is one line that names the file."""
    found: dict[str, Value] = {}
    for entry in entries:
        name, value = entry.pair(str, object)
        inside = Entry(value, f"{entry.path}: {name}")
        if isinstance(value, dict):
            found[name] = inside.outcome()
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            found[name] = value
        else:
            raise refuse(inside.path, "be an outcome, a number or a text", repr(value), "The file is damaged.")
    return found
