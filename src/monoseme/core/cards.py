"""What one block shows of itself: the type that evaluation fills and pages draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from monoseme.core.outcome import Outcome

__all__ = ["BlockCard", "Shown"]


@dataclass(frozen=True)
class Shown:
    """One held-out sample on a card.

    Attributes
    ----------
    sample
        Id of the sample in the store.
    grid
        (height, width) of its tokens; (1, T) for text.
    presence
        (T,) ‖z_g‖ at every token in raw activation units, 0 where the block is not active. T = height · width.
    place
        (T, 3) position inside the block: the contribution z_g D_g in the block's first three principal directions over
        its firing rows (zeros where it is not active; zero-padded when b < 3).
    """

    sample: str
    grid: tuple[int, int]
    presence: Float32[np.ndarray, " T"]
    place: Float32[np.ndarray, "T 3"]


@dataclass(frozen=True)
class BlockCard:
    """One block: its numbers, the samples it fires on most, and the cloud of its positions.

    Attributes
    ----------
    block
        Index g of the block.
    block_size
        b.
    outcomes
        Its numbers. A number whose room is not built yet is there too, unknown, saying "not computed".
    shown
        Held-out samples with the strongest presence, strongest first, at most one entry a sample.
    cloud
        (m, 3) positions (see `Shown.place`) of at most a few hundred held-out rows on which it fires.
    """

    block: int
    block_size: int
    outcomes: tuple[Outcome, ...]
    shown: tuple[Shown, ...]
    cloud: Float32[np.ndarray, "m 3"]
