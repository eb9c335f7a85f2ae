"""What a fitted featurizer promises to the rooms that read it, so that anybody's can be evaluated or certified."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from monoseme.core.code import Code

__all__ = ["Featurizes", "Refine"]

Refine = Literal["ls", "omp"] | None


@runtime_checkable
class Featurizes(Protocol):
    """Encode rows to block-sparse codes and decode them. All in raw activation units: decode(c) == c @ atoms + bias."""

    @property
    def atoms(self) -> Float[Tensor, "G b d"]:
        """Directions of the blocks, in raw units."""
        ...

    @property
    def bias(self) -> Float[Tensor, " d"]:
        """Reconstruction of a row with no active block, in raw units."""
        ...

    def encode(self, x: Float[Tensor, "*batch d"], refine: Refine = None) -> Code:
        """Codes of rows in raw units."""
        ...

    def decode(self, code: Code) -> Float[Tensor, "*batch d"]:
        """Rows in raw units."""
        ...
