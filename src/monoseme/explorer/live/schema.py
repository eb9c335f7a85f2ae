"""What the server answers: the types, said once. ``/api/schema`` serves them as JSON Schema, drawn from them."""

from __future__ import annotations

import types
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = [
    "ANSWERS",
    "Block",
    "Blocks",
    "Card",
    "Compared",
    "Comparison",
    "Fired",
    "Number",
    "Run",
    "Runs",
    "Seen",
    "Shape",
    "Tried",
    "Verdict",
    "Walk",
    "Way",
    "Waypoint",
    "declarations",
    "schema",
]


@dataclass(frozen=True)
class Number:
    """An outcome: a value with its interval over n units, or None with the reason in `note`."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    n: int | None
    n_unit: str
    unit: str
    better: str | None
    note: str


@dataclass(frozen=True)
class Run:
    """One run: its place in the list, what it is, how many blocks, and what can be tried on it, or why nothing can."""

    number: int
    title: str
    kind: str
    facts: dict[str, str]
    notes: list[str]
    numbers: list[Number]
    blocks: int
    tries: str
    why: str


@dataclass(frozen=True)
class Runs:
    """All runs that are served."""

    runs: list[Run]


@dataclass(frozen=True)
class Block:
    """One block's numbers, by column; None where not known."""

    block: int
    numbers: list[float | None]


@dataclass(frozen=True)
class Blocks:
    """A piece of the table of blocks: names of the columns, blocks that were found in all, and the piece."""

    columns: list[str]
    total: int
    rows: list[Block]


@dataclass(frozen=True)
class Seen:
    """A held-out sample that a block fires on: tokens (of a text), and presence and place at those where it does."""

    sample: str
    label: str
    height: int
    width: int
    tokens: list[str]
    positions: list[int]
    presence: list[float]
    place: list[list[float]]


@dataclass(frozen=True)
class Card:
    """One block whole: its numbers, the samples it fires on most, and where its codes lie."""

    block: int
    size: int
    numbers: list[Number]
    shown: list[Seen]
    cloud: list[list[float]]


@dataclass(frozen=True)
class Compared:
    """One number in two runs; None where a run has none of that name."""

    name: str
    first: Number | None
    second: Number | None


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side."""

    rows: list[Compared]


@dataclass(frozen=True)
class Fired:
    """A block that fires on what was tried: presence at every token of the grid, and its share of the code's energy."""

    block: int
    share: float
    presence: list[float]


@dataclass(frozen=True)
class Tried:
    """What a featurizer makes of a picture or a text: tokens (of a text), grid, blocks by energy, FVU of the rows."""

    height: int
    width: int
    tokens: list[str]
    blocks: list[Fired]
    fvu: float | None
    note: str = ""


@dataclass(frozen=True)
class Waypoint:
    """A code on a walk, by its place, and the code nearest to it on the card: item of `shown`, token, and how far away.

    The distance is in units of the root mean square of the block's codes about their mean.
    """

    place: list[float]
    shown: int
    token: int
    away: float


@dataclass(frozen=True)
class Way:
    """One walk on a map; a closed one ends where it began."""

    name: str
    closed: bool
    waypoints: list[Waypoint]


@dataclass(frozen=True)
class Walk:
    """Walks along a block's self-organising map, in equal steps: its topology and the reason for it; or why none."""

    topology: str
    reason: str
    numbers: list[Number]
    ways: list[Way]
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """What was proved about one feature of a block; `partners` are the blocks that a removal moves."""

    feature: int
    side: int
    verdict: str
    meaning: str
    reason: str
    numbers: list[Number]
    partners: list[int]


@dataclass(frozen=True)
class Shape:
    """What a block looks like from within: dimensions it uses, walks along it, certificates; or why there are none."""

    block: int
    size: int
    dimension: list[Number]
    walk: Walk
    verdicts: list[Verdict]
    uncertified: str = ""


ANSWERS = (Runs, Blocks, Card, Comparison, Tried, Shape)
PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """JSON Schema of every answer."""
    found: dict[str, Any] = {}
    for answer in ANSWERS:
        _define(answer, found)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": found}


def _define(kind: type, found: dict[str, Any]) -> None:
    if kind.__name__ in found:
        return
    found[kind.__name__] = {}
    hints = get_type_hints(kind)
    found[kind.__name__] = {
        "type": "object",
        "description": (kind.__doc__ or "").split("\n")[0],
        "properties": {field.name: _type(hints[field.name], found) for field in fields(kind)},
        "required": [field.name for field in fields(kind)],
        "additionalProperties": False,
    }


def _type(hint: Any, found: dict[str, Any]) -> dict[str, Any]:
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        _define(hint, found)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, args = get_origin(hint), get_args(hint)
    if origin is list:
        return {"type": "array", "items": _type(args[0], found)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(args[1], found)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(arg, found) for arg in args]}
    raise TypeError(f"no schema for {hint}")


def declarations() -> str:
    """The same as TypeScript, which the page's script is checked against."""
    lines = ["// Written by monoseme.explorer.live.schema.declarations; a test holds them together.", ""]
    for name, kind in schema()["$defs"].items():
        lines += [f"/** {kind['description']} */", f"export interface {name} {{"]
        lines += [f"  {field}: {_script(of)};" for field, of in kind["properties"].items()]
        lines += ["}", ""]
    return "\n".join(lines)


def _script(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        return kind["$ref"].rsplit("/", 1)[1]
    if "anyOf" in kind:
        return " | ".join(_script(one) for one in kind["anyOf"])
    if kind["type"] == "array":
        return f"Array<{_script(kind['items'])}>"
    if kind["type"] == "object":
        return f"Record<string, {_script(kind['additionalProperties'])}>"
    return "number" if kind["type"] == "integer" else str(kind["type"])
