"""Cards as arrays. Presence and place are stored where the block is active only: about a tenth of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.errors import refuse
from monoseme.core.parse import Entry

__all__ = ["pack_cards", "unpack_cards"]


def pack_cards(cards: Sequence[BlockCard]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Return the JSON part and the arrays of `cards`; the arrays are the cards' ragged parts, one after another."""
    token, presence, place, cloud = [], [], [], []
    index: list[dict[str, Any]] = []
    for card in cards:
        shown = []
        for item in card.shown:
            active = np.flatnonzero((item.presence != 0) | (item.place != 0).any(1))
            token.append(active.astype(np.int32))
            presence.append(item.presence[active])
            place.append(item.place[active])
            shown.append({"sample": item.sample, "grid": list(item.grid), "active": len(active)})
        cloud.append(card.cloud)
        index.append(
            {
                "block": card.block,
                "block_size": card.block_size,
                "outcomes": [outcome.to_json() for outcome in card.outcomes],
                "shown": shown,
                "cloud": len(card.cloud),
            }
        )
    tensors = {
        "token": torch.from_numpy(np.concatenate([np.zeros(0, np.int32), *token])),
        "presence": torch.from_numpy(np.concatenate([np.zeros(0, np.float32), *presence])),
        "place": torch.from_numpy(np.concatenate([np.zeros((0, 3), np.float32), *place])),
        "cloud": torch.from_numpy(np.concatenate([np.zeros((0, 3), np.float32), *cloud])),
    }
    return index, tensors


def unpack_cards(index: Sequence[Entry], path: Path) -> tuple[BlockCard, ...]:
    """Inverse of `pack_cards`; lengths that do not fit are refused."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        token, presence, place, cloud = (arrays[name] for name in ("token", "presence", "place", "cloud"))
    except (SafetensorError, KeyError) as error:
        raise refuse("folder", "hold sound cards", f"{path} ({error})", "The file is damaged; save it again.") from None
    cards, at, dot = [], 0, 0
    for entry in index:
        shown = []
        for item in entry.items("shown"):
            n = item.get("active", int)
            part = slice(at, at + n)
            shown.append(_shown(item, token[part], presence[part], place[part]))
            at += n
        m = entry.get("cloud", int)
        cards.append(
            BlockCard(
                block=entry.get("block", int),
                block_size=entry.get("block_size", int),
                outcomes=tuple(outcome.outcome() for outcome in entry.items("outcomes")),
                shown=tuple(shown),
                cloud=cloud[dot : dot + m],
            )
        )
        dot += m
    if (at, dot) != (len(token), len(cloud)):
        raise refuse(
            "folder",
            "hold as many card entries as its index counts",
            f"{path} ({at} of {len(token)})",
            "Save it again.",
        )
    return tuple(cards)


def _shown(item: Entry, token: np.ndarray, presence: np.ndarray, place: np.ndarray) -> Shown:
    height, width = Entry(item.get("grid", list), f"{item.path}: grid").pair(int, int)
    if min(height, width) < 1:
        raise refuse(item.path, "have a grid of at least one token", (height, width), "The file is damaged.")
    whole = np.zeros(height * width, np.float32)
    where = np.zeros((height * width, 3), np.float32)
    if len(token) != item.get("active", int) or (len(token) and not 0 <= token.min() <= token.max() < len(whole)):
        raise refuse(item.path, "point inside its grid", (height, width), "The file is damaged; save it again.")
    whole[token], where[token] = presence, place
    return Shown(item.get("sample", str), (height, width), whole, where)
