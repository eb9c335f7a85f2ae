"""What text the command line can harvest, by name: a file or a folder, Python's own help, or the Brown corpus."""

from __future__ import annotations

from monoseme.store import Source, TextFolder, brown, python_topics

__all__ = ["named_text"]

TOPICS, BROWN = "topics", "brown"


def named_text(data: str) -> Source:
    """Documents behind ``FILE``, ``FOLDER``, ``topics``, ``brown`` or ``brown:FOLDER``."""
    if data == TOPICS:
        return python_topics()
    name, _, folder = data.partition(":")
    if name == BROWN:
        return brown(folder or None)
    return TextFolder(data)
