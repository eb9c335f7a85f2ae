"""Cards as compact script files. The index has one number a block and outcome; shards of 16 blocks have the rest.

Why script files and not JSON: a page opened from a file may load scripts beside it, but not fetch. Why 16: a gallery
page of 48 cards sorted by anything reads at most 48 shards, 4 MB from the disk, and one card 80 kB.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.records.run import SampleView

__all__ = ["SHARD", "card_index", "pack_cloud", "pack_shown", "script", "shard"]

SHARD = 16


def script(call: str, *values: object) -> str:
    """Return a script that hands plain values to the page. No text in them can end the script."""
    parts = (json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c") for value in values)
    return f"monoseme.{call}({','.join(parts)});\n"


def _round(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{value:.5g}")


def _columns(cards: Sequence[BlockCard]) -> list[Outcome]:
    """One outcome for every name on any card, in order of first appearance."""
    first: dict[str, Outcome] = {}
    for card in cards:
        for outcome in card.outcomes:
            first.setdefault(outcome.name, outcome)
    return list(first.values())


def card_index(
    cards: Sequence[BlockCard], pictures: Mapping[str, str], samples: Mapping[str, SampleView]
) -> dict[str, Any]:
    """Return what the gallery needs at once: the blocks, their numbers by column, and the samples they show."""
    columns = _columns(cards)
    values: dict[str, list[float | None]] = {column.name: [None] * len(cards) for column in columns}
    for i, card in enumerate(cards):
        for outcome in card.outcomes:
            values[outcome.name][i] = _round(outcome.value)
    names = list(dict.fromkeys(item.sample for card in cards for item in card.shown))
    views = [samples.get(name, SampleView()) for name in names]
    return {
        "shard": SHARD,
        "blocks": [card.block for card in cards],
        "columns": [
            {"name": c.name, "unit": "" if c.unit == "1" else c.unit, "better": c.better, "values": values[c.name]}
            for c in columns
        ],
        "samples": [
            [name, pictures.get(name, ""), view.label, list(view.tokens)]
            for name, view in zip(names, views, strict=True)
        ],
    }


def pack_shown(item: Shown, most: float) -> str:
    """Pack a sample's active tokens as base64: six bytes each.

    Token (uint16, little end first), presence ÷ `most` (uint8, at least 1), and the colour 0.5 + 0.5 · place ÷ ‖place‖
    (three uint8): position inside the block as colour, presence as opacity.
    """
    if len(item.presence) > 65536:
        raise refuse("shown", "have at most 65,536 tokens a sample", len(item.presence), "Show a part of it.")
    active = np.flatnonzero(item.presence > 0)
    length = np.linalg.norm(item.place[active].astype(np.float64), axis=1, keepdims=True)
    unit = np.divide(item.place[active], length, out=np.zeros((len(active), 3)), where=length > 0)
    table = np.zeros((len(active), 6), np.uint8)
    table[:, :2] = active.astype("<u2").view(np.uint8).reshape(-1, 2)
    share = np.nan_to_num(item.presence[active].astype(np.float64) / most if most > 0 else 0.0)
    table[:, 2] = np.clip(np.rint(255 * share), 1, 255) if len(active) else 0
    table[:, 3:] = np.clip(np.rint(255 * (0.5 + 0.5 * unit)), 0, 255)
    return base64.b64encode(table.tobytes()).decode()


def pack_cloud(cloud: Float32[np.ndarray, "m 3"]) -> list[Any]:
    """Pack positions as [scale, base64 of int16 triples], position = scale · integer ÷ 32767. NaNs are left out."""
    sound = cloud[np.isfinite(cloud).all(1)].astype(np.float64)
    scale = float(np.abs(sound).max()) if sound.size else 0.0
    whole = np.rint(sound / (scale or 1.0) * 32767).astype("<i2")
    return [float(f"{scale:.5g}"), base64.b64encode(whole.tobytes()).decode()]


def shard(cards: Sequence[BlockCard], numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the whole of some cards. `numbers` gives the position of a sample in the index; notes are stored once."""
    notes: dict[str, int] = {}

    def outcome(o: Outcome) -> list[Any]:
        note = notes.setdefault(o.note, len(notes))
        low, high = _round(o.low), _round(o.high)
        return [o.name, _round(o.value), low, high, o.confidence, o.unit, o.better or "", o.n, o.n_unit, note]

    packed = []
    for card in cards:
        most = max((float(item.presence.max(initial=0)) for item in card.shown), default=0.0)
        shown = [
            [numbers[item.sample], *item.grid, _round(float(item.presence.max(initial=0))), pack_shown(item, most)]
            for item in card.shown
        ]
        outcomes = [outcome(o) for o in card.outcomes]
        packed.append([card.block, card.block_size, outcomes, shown, pack_cloud(card.cloud)])
    return {"cards": packed, "notes": list(notes)}
