"""Token ids and pieces of held-out windows: what pages show, and what the splice runs the model on again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.store.windows import Windows

__all__ = ["TEXT", "HeldText", "HeldWindow", "text_tensors"]

TEXT = "text.safetensors"


class HeldWindow(NamedTuple):
    """A held-out window: its token ids, the positions whose rows the store keeps, and its document."""

    input_ids: Int64[Tensor, " T"]
    positions: Int64[Tensor, " n"]
    group: str


def text_tensors(windows: Windows, held: Sequence[int]) -> dict[str, Tensor]:
    """Lay out the windows `held`, one after another: ids and where windows end; UTF-8 pieces and where they end."""
    ids = [windows[i].ids for i in held]
    ends = np.cumsum([len(window) for window in ids])
    found = {"ids": torch.from_numpy(np.concatenate(ids)), "ends": torch.from_numpy(ends)}
    if windows.tokenizer is None:
        return found
    pieces = []
    for window in ids:
        shown = windows.tokenizer.pieces(window.tolist())
        if len(shown) != len(window):
            got = f"{len(shown)} for {len(window)} ids"
            raise refuse("model", "have a tokenizer that gives one piece an id", got, "Mend Tokenizer.pieces.")
        pieces += [piece.encode(errors="replace") for piece in shown]
    text = np.frombuffer(b"".join(pieces), dtype=np.uint8).copy()
    places = np.cumsum([len(piece) for piece in pieces])
    return {**found, "pieces": torch.from_numpy(text), "piece_ends": torch.from_numpy(places)}


class HeldText:
    """The table of held-out text, read when it is first needed.

    Parameters
    ----------
    path
        Its file.
    lengths
        Tokens of every held-out sample, as the table of samples has them.
    """

    def __init__(self, path: Path, lengths: Sequence[int]) -> None:
        self.path, self._lengths = path, lengths

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        try:
            found = load_file(str(self.path))
            ends, ids = found["ends"], found["ids"]
            if ends.tolist() != np.cumsum(self._lengths).tolist() or len(ids) != sum(self._lengths):
                raise KeyError("windows of other lengths")
            if "pieces" in found and len(found["piece_ends"]) != len(ids):
                raise KeyError("pieces of other tokens")
        except (OSError, SafetensorError, KeyError) as error:
            got = f"{self.path} ({error})"
            raise refuse("path", "hold a whole store", got, "Delete the folder and harvest anew.") from None
        return found

    def _slice(self, i: int) -> slice:
        end = int(self._tensors["ends"][i])
        return slice(end - self._lengths[i], end)

    def ids(self, i: int) -> Int64[Tensor, " T"]:
        """Token ids of held-out sample i."""
        return self._tensors["ids"][self._slice(i)].long()

    def pieces(self, i: int) -> tuple[str, ...] | None:
        """What each of its tokens shows as; None when ids came without a tokenizer."""
        if "pieces" not in self._tensors:
            return None
        where = self._slice(i)
        ends = self._tensors["piece_ends"][where].tolist()
        begin = int(self._tensors["piece_ends"][where.start - 1]) if where.start else 0
        text = self._tensors["pieces"][begin : ends[-1] if ends else begin].numpy().tobytes()
        cuts = [0, *(end - begin for end in ends)]
        return tuple(text[a:b].decode(errors="replace") for a, b in pairwise(cuts))
