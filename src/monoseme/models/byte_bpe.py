"""Byte-level byte-pair encoding (Radford et al. 2019) from a list of tokens and a list of merges."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

from monoseme.core.errors import refuse

__all__ = ["ByteBPE", "byte_of_letter"]


def byte_of_letter() -> dict[str, int]:
    """Which byte each letter of a byte-level vocabulary stands for.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, for the characters from U+0100 on.

    Examples
    --------
    >>> letters = byte_of_letter()
    >>> len(letters), letters["a"], letters["Ġ"], letters["Ċ"]
    (256, 97, 32, 10)
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(rest)}


class ByteBPE:
    """A `Tokenizer`: text is split into digits, words and runs of spaces, then each part's bytes are merged.

    Marks such as ``<|endoftext|>`` written in a text are encoded as the letters they are: a text cannot forge them.

    Parameters
    ----------
    tokens
        All tokens by id, in byte-level letters; special ones in plain text.
    merges
        "left right" pairs, earliest first.
    special
        Ids that stand for no text.
    bos
        Id that begins a document.
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[str], special: Iterable[int], bos: int | None) -> None:
        if importlib.util.find_spec("tokenizers") is None:
            raise refuse("model", "have its tokenizer installed", "no tokenizers", "Run: pip install tokenizers")
        from tokenizers import Tokenizer as Backend
        from tokenizers import models, pre_tokenizers

        pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
        self._backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
        self._backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.special = frozenset(special)
        self.bos = bos
        letters = byte_of_letter()
        self._bytes = [
            token.encode() if i in self.special else bytes(letters[letter] for letter in token)
            for i, token in enumerate(tokens)
        ]

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Ids of a text; every text has some, because every byte has one."""
        # a lone surrogate is no character of UTF-8, in which the bytes are counted
        return self._backend.encode(text.encode(errors="replace").decode(), add_special_tokens=False).ids

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id shows as; part of a character shows as \ufffd."""
        return [part.decode(errors="replace") for part in self.parts(ids)]

    def parts(self, ids: Sequence[int]) -> list[bytes]:
        """Bytes of each id: joined, exactly those of the text that was encoded."""
        return [self._bytes[i] for i in ids]
