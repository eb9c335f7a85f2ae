"""Byte-level BPE on a vocabulary small enough to see through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoseme.models import Tokenizer
from monoseme.models.byte_bpe import ByteBPE, byte_of_letter

LETTERS = list(byte_of_letter())
MERGES = ["h e", "l l", "he ll", "Ġ w", "1 2"]
TOKENS = ["<|end|>", *LETTERS, *(merge.replace(" ", "") for merge in MERGES)]


def tokenizer() -> ByteBPE:
    return ByteBPE(TOKENS, MERGES, special=[0], bos=0)


def test_protocol() -> None:
    assert isinstance(tokenizer(), Tokenizer)
    assert (tokenizer().vocabulary, tokenizer().bos, tokenizer().special) == (len(TOKENS), 0, {0})


def test_merges_and_single_digits() -> None:
    assert tokenizer().pieces(tokenizer().encode("hello w12")) == ["hell", "o", " w", "1", "2"]


def test_marks_in_a_text_are_letters() -> None:
    ids = tokenizer().encode("<|end|>")
    assert 0 not in ids
    assert "".join(tokenizer().pieces(ids)) == "<|end|>"
    assert tokenizer().pieces([0]) == ["<|end|>"]


@given(st.text())
def test_bytes_come_back(text: str) -> None:
    ids = tokenizer().encode(text)
    assert b"".join(tokenizer().parts(ids)) == text.encode()


@pytest.mark.parametrize(("text", "shown"), [("é", ["\ufffd", "\ufffd"]), ("\ud800", ["?"]), ("", [])])
def test_what_is_no_character(text: str, shown: list[str]) -> None:
    assert tokenizer().pieces(tokenizer().encode(text)) == shown
