"""`TokenPolicy`: which tokens of a sample become rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from monoseme.core.errors import refuse

__all__ = ["TokenPolicy", "as_policy"]

SHORTHANDS = ("patches", "all")


@dataclass(frozen=True)
class TokenPolicy:
    """Which tokens of a sample become rows, and how text is laid out for the model.

    Padding never becomes a row, whatever is asked for. A row keeps its position: along the grid of patches in a
    picture, among the window's own tokens (begin-of-document mark at 0) in text.

    Attributes
    ----------
    special
        Keep tokens that stand for no content: a picture's CLS and registers (its grid then becomes one line), a text's
        begin-of-document mark and everything in `Tokenizer.special`.
    positions
        (start, stop): keep only positions start ≤ p < stop; a stop of None means to the end.
    max_norm
        Drop rows whose norm exceeds this multiple of the median norm of a probe of training samples: attention sinks
        hold most of the variance and little else. The median and the counts of dropped rows are in the manifest.
    context
        Tokens of a text's window, its begin-of-document mark among them.
    padding
        Where a batch of texts is padded. The same rows come out, up to the rounding of sums of another order.
    """

    special: bool = False
    positions: tuple[int, int | None] | None = None
    max_norm: float | None = None
    context: int = 128
    padding: Literal["right", "left"] = "right"

    def __post_init__(self) -> None:
        if self.positions is not None:
            self._check_positions(self.positions)
        limit = self.max_norm
        if limit is not None and not (isinstance(limit, (int, float)) and 1 < limit < math.inf):
            raise refuse("max_norm", "be above 1, in medians of the norm", limit, "10 drops attention sinks.")
        if not isinstance(self.context, int) or isinstance(self.context, bool) or self.context < 1:
            raise refuse("context", "be a whole number, at least 1 token", repr(self.context), "128 is usual.")
        if self.padding not in ("right", "left"):
            raise refuse("padding", "be right or left", repr(self.padding), "Rows are the same either way.")

    @staticmethod
    def _check_positions(positions: tuple[int, int | None]) -> None:
        start, stop = positions if isinstance(positions, Sequence) and len(positions) == 2 else (-1, None)
        if not (isinstance(start, int) and start >= 0 and (stop is None or (isinstance(stop, int) and stop > start))):
            raise refuse("positions", "be (start, stop) with 0 <= start < stop", positions, "For example (1, 64).")


def as_policy(tokens: TokenPolicy | str) -> TokenPolicy:
    """Return the policy; ``"patches"`` is the default one and ``"all"`` keeps special tokens."""
    if isinstance(tokens, TokenPolicy):
        return tokens
    if tokens not in SHORTHANDS:
        raise refuse(
            "tokens", f"be a TokenPolicy, or one of {', '.join(SHORTHANDS)}", repr(tokens), "'patches' drops CLS."
        )
    return TokenPolicy(special=tokens == "all")
