"""What a module does not say of itself: its name, its patches, how a picture becomes its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["ModelFacts", "TokenGrid", "Tokenizer"]


class TokenGrid(NamedTuple):
    """How the tokens of one sample lie: `special` leading ones (CLS, registers), then height · width in row order."""

    height: int
    width: int
    special: int


@runtime_checkable
class Tokenizer(Protocol):
    """Text to token ids and back to something readable; no padding, no truncation, no special tokens added."""

    @property
    def vocabulary(self) -> int:
        """Number of ids: every id is below it."""
        ...

    @property
    def bos(self) -> int | None:
        """Id that begins a document, if the model was trained with one."""
        ...

    @property
    def special(self) -> frozenset[int]:
        """Ids that stand for no text: begin, end, padding, chat marks."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id shows as; joined, the text (bytes that are no character by themselves show as \ufffd)."""
        ...


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
    tokenizer
        Of a language model, whose input is then ``{"input_ids": (B, T), "attention_mask": (B, T)}``.
    context
        Most tokens of one input, if the model has a limit.
    classes
        Names of the outputs of a classifier, in order; empty when it is none.
    """

    name: str
    weights: str = "as given"
    caveat: str = ""
    d_model: int | None = None
    patch: int | None = None
    special_tokens: int = 0
    preprocess: Callable[[Any], Tensor] | None = None
    tokenizer: Tokenizer | None = None
    context: int | None = None
    classes: tuple[str, ...] = ()
