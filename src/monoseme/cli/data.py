"""What DATA means on the command line: pictures for a vision model, text for a language model."""

from __future__ import annotations

from pathlib import Path

from monoseme.cli.pictures import DEMO, WHEELS, named
from monoseme.cli.texts import BROWN, TOPICS, named_text
from monoseme.core.errors import refuse
from monoseme.models import HookedModel
from monoseme.store import Source

__all__ = ["data_for"]


def data_for(model: HookedModel, data: str, size: int, seed: int) -> Source:
    """Open the pictures or the text that a model is to see.

    Raises
    ------
    UserError
        Nothing there, nothing that can be read, or text for a vision model and the reverse.
    """
    if not data:
        raise refuse("DATA", "name pictures or text", "none", "Give a folder; `monoseme harvest --help` tells more.")
    if model.facts.tokenizer is None:
        if data == TOPICS or data.partition(":")[0] == BROWN or Path(data).is_file():
            fix = f"Give a folder of pictures, or {WHEELS}; text is for language models."
            raise refuse("DATA", f"be pictures for {model.name}, which has no tokenizer", repr(data), fix)
        return named(data, size, seed)
    if data == WHEELS or data.startswith(DEMO):
        fix = f"Give a text file, a folder of them, or {TOPICS}; pictures are for vision models."
        raise refuse("DATA", f"be text for {model.name}, a language model", repr(data), fix)
    return named_text(data)
