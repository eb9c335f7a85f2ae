"""A prompt and a seed as a row of bytes: how a text-to-image model takes a sample that must be a tensor."""

from __future__ import annotations

import torch
from jaxtyping import UInt8
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["from_row", "to_row"]

SEED = 8  # leading bytes


def to_row(prompt: str, seed: int, width: int | None = None) -> UInt8[Tensor, " w"]:
    """Bytes of the seed, then of the prompt in UTF-8, filled up with zeros to `width`.

    Examples
    --------
    >>> from_row(to_row("a cat", 3, 20))
    ('a cat', 3)
    """
    text = prompt.encode("utf-8", errors="surrogatepass")
    width = SEED + len(text) if width is None else width
    if b"\0" in text or SEED + len(text) > width:
        raise refuse("prompt", f"have at most {width - SEED} bytes and no zero", f"{len(text)}", "Shorten it.")
    if not 0 <= seed < 2**63:
        raise refuse("seed", "be at least 0 and below 2⁶³", seed, "Choose another.")
    return torch.tensor([*seed.to_bytes(SEED, "little"), *text.ljust(width - SEED, b"\0")], dtype=torch.uint8)


def from_row(row: UInt8[Tensor, " w"]) -> tuple[str, int]:
    """Prompt and seed of a row."""
    found = bytes(row.tolist())
    text = found[SEED:].rstrip(b"\0").decode("utf-8", errors="surrogatepass")
    return text, int.from_bytes(found[:SEED], "little")
