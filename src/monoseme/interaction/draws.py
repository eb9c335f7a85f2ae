"""Random probes, independent over samples, the same however samples come in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from monoseme.core.errors import closest, refuse
from monoseme.core.seeds import rng

__all__ = ["LAWS", "Draws"]

# one number of each is one number of the stream, so that the cuts between pieces do not matter
LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "rademacher": lambda stream, size: np.where(stream.random(size) < 0.5, -1.0, 1.0),
    "gaussian": lambda stream, size: stream.standard_normal(size),
}


class Draws:
    """m streams of unit variance, each read on and on.

    Parameters
    ----------
    m
        Probes of every sample.
    law
        "rademacher" (signs: least variance for quadratic forms) or "gaussian".
    seed, path
        Name of the streams.
    """

    def __init__(self, m: int, law: str, seed: int, *path: str | int) -> None:
        if law not in LAWS:
            raise refuse("law", f"be one of {', '.join(LAWS)}", repr(law), closest(law, LAWS))
        self.law, self.streams = LAWS[law], [rng(seed, "agop", *path, j) for j in range(m)]

    def __len__(self) -> int:
        return len(self.streams)

    def draw(self, probe: int, shape: tuple[int, ...]) -> Tensor:
        """Next samples of one probe, float64; the samples' axis first."""
        return torch.from_numpy(self.law(self.streams[probe], math.prod(shape))).reshape(shape)
