"""What a module does not say of itself: its name, its patches, how a picture becomes its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

__all__ = ["ModelFacts", "TokenGrid"]


class TokenGrid(NamedTuple):
    """How the tokens of one sample lie: `special` leading ones (CLS, registers), then height · width in row order."""

    height: int
    width: int
    special: int


@dataclass(frozen=True)
class ModelFacts:
    """What a module does not say of itself.

    Attributes
    ----------
    name
        Name in the registry, or the class of the module.
    weights
        "pretrained", "random (seed 0)", or "as given".
    caveat
        One line that pages show beside every result of this model; empty when there is nothing to warn of.
    d_model
        Width of the residual stream, if there is one.
    patch
        Side of a picture patch in pixels: a (B, 3, H, W) input has H/patch · W/patch patch tokens. None: not a ViT.
    special_tokens
        Leading tokens that are no patch (CLS, registers).
    preprocess
        Turns one (H, W, 3) uint8 picture into the module's (3, H, W) input.
    """

    name: str
    weights: str = "as given"
    caveat: str = ""
    d_model: int | None = None
    patch: int | None = None
    special_tokens: int = 0
    preprocess: Callable[[Any], Tensor] | None = None
