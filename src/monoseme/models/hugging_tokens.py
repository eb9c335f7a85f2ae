"""A tokenizer of transformers behind the `Tokenizer` protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["HuggingTokenizer"]


class HuggingTokenizer:
    """Text to ids and back, without special tokens, padding or truncation.

    Parameters
    ----------
    tokenizer
        A ``PreTrainedTokenizer`` of transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.vocabulary: int = max(tokenizer.get_vocab().values(), default=-1) + 1
        self.bos: int | None = tokenizer.bos_token_id
        self.special = frozenset(tokenizer.all_special_ids)
        self._shown: dict[int, str] = {}
        # decoders drop a space before the first word, so a token is shown behind this one
        self._anchor: list[int] = self.encode("a")[-1:]

    def encode(self, text: str) -> list[int]:
        """Ids of a text; marks such as ``</s>`` written in it are the letters they are, and forge no special token."""
        # verbose: no warning about long texts, which are cut into windows later
        return self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id shows as; part of a character shows as \ufffd.

        A tokenizer that puts a space before the first word of a text shows that space.
        """
        for i in ids:
            if i not in self._shown:
                self._shown[i] = self._show(i)
        return [self._shown[i] for i in ids]

    def _show(self, token: int) -> str:
        before, both = (self._decode(ids) for ids in (self._anchor, [*self._anchor, token]))
        return both[len(before) :] if both.startswith(before) else self._decode([token])

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
