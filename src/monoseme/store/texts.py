"""Text to harvest: documents in memory, in files, or in a data set; they become windows of tokens with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.store.sources import Entry

__all__ = ["Document", "TextFolder", "Texts", "python_topics"]


@dataclass(frozen=True)
class Document:
    """One text.

    Attributes
    ----------
    id
        Unique name.
    text
        All of it; it is cut into windows later, which stay on one side of a split.
    target
        Plain JSON values known of it, for example ``{"label": "fiction"}``.
    """

    id: str
    text: str
    target: Mapping[str, Any] | None = None


class Texts:
    """Documents from a sequence of strings, (id, text) pairs, `Document`, or mappings with a text field.

    Anything with ``len`` and ``[i]`` will do, such as a `datasets.Dataset`; mappings are read one at a time, and only
    when they are tokenised. Without ids of their own, documents are called "0", "1", ...

    Parameters
    ----------
    documents
        The texts.
    field
        Where a mapping keeps its text.
    """

    def __init__(self, documents: Any, field: str = "text") -> None:
        if isinstance(documents, (str, bytes, Mapping)) or not hasattr(documents, "__getitem__"):
            raise refuse("documents", "be a sequence of texts", type(documents).__name__, "Put them in a list.")
        if len(documents) == 0:
            raise refuse("documents", "hold at least one text", "none", "Check where they come from.")
        self._documents, self.field = documents, field
        # the first tells whether all have names: a data set is not read through for them
        named = isinstance(documents[0], (tuple, Document))
        self.entries = [self._entry(i) if named else Entry(str(i), str(i)) for i in range(len(documents))]

    def _entry(self, i: int) -> Entry:
        item = self._documents[i]
        if isinstance(item, Document):
            return Entry(item.id, item.id, None, item.target)
        if not (isinstance(item, tuple) and len(item) == 2):
            raise refuse("documents", "be (id, text) pairs throughout", f"{type(item).__name__} at {i}", "Mend it.")
        return Entry(item[0], item[0])

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> str:
        item = self._documents[i]
        if isinstance(item, Document):
            item = item.text
        elif isinstance(item, tuple):
            item = item[-1]
        elif isinstance(item, Mapping):
            if self.field not in item:
                known = ", ".join(map(str, item))
                raise refuse("field", "name a field of every document", f"{self.field!r} of {known}", "Choose one.")
            item = item[self.field]
        if not isinstance(item, str):
            raise refuse("documents", "hold texts", f"{type(item).__name__} at {i}", "Convert it to str.")
        return item

    def __repr__(self) -> str:
        return f"Texts: {len(self)} documents"


class TextFolder:
    """All text files below a folder, one document a file, or one file alone. Each is decoded once when this is made.

    Parameters
    ----------
    path
        Folder, or one file. The name of the folder that holds a file becomes its label.
    pattern
        Which files, as `Path.glob` reads it.
    encoding
        Of all files; a byte order mark is dropped.

    Attributes
    ----------
    skipped
        (path, reason) of files that are not text in this encoding. They are left out whole: a text with replaced bytes
        would teach their replacement.
    """

    def __init__(self, path: str | Path, pattern: str = "**/*.txt", encoding: str = "utf-8") -> None:
        self.path, self.pattern, self.encoding = Path(path).absolute(), pattern, encoding
        if not self.path.exists():
            raise refuse("path", "be a text file or a folder of them", f"{path} (not there)", "Check the path.")
        alone = self.path.is_file()
        try:
            files = [self.path] if alone else sorted(file for file in self.path.glob(pattern) if file.is_file())
        except (ValueError, NotImplementedError) as error:  # pathlib's words for no pattern, and for an absolute one
            raise refuse(
                "pattern", "be a pattern below the folder", f"{pattern!r} ({error})", "Try **/*.txt."
            ) from None
        root = self.path.parent if alone else self.path
        self._files: list[Path] = []
        self.skipped: list[tuple[str, str]] = []
        for file in files:
            try:
                self._read(file)
                self._files.append(file)
            except (OSError, UnicodeError) as error:
                self.skipped.append((file.relative_to(root).as_posix(), " ".join(str(error).split())))
            except (LookupError, ValueError):  # no such encoding, or a name that cannot be one
                raise refuse("encoding", "be one that Python knows", repr(encoding), "For example utf-8.") from None
        if not self._files:
            got = f"{path} with none" + (f" that can be read of {len(self.skipped)}" if self.skipped else "")
            raise refuse("path", f"hold text files ({pattern}, {encoding})", got, "Choose another folder or pattern.")
        self.entries = [self._entry(file.relative_to(root)) for file in self._files]

    @staticmethod
    def _entry(name: Path) -> Entry:
        parent = name.parent.as_posix()
        return Entry(name.as_posix(), name.as_posix(), None, None if parent == "." else {"label": parent})

    def _read(self, file: Path) -> str:
        return file.read_text(encoding=self.encoding).removeprefix("\ufeff")

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: int) -> str:
        return self._read(self._files[i])

    def __repr__(self) -> str:
        return f"TextFolder({str(self.path)!r}): {len(self)} documents, {len(self.skipped)} skipped"


def python_topics() -> Texts:
    """What Python's own ``help()`` says of the language: about 466 kB of English with code, one document a topic."""
    from pydoc_data.topics import topics  # generated from the reference manual, in every Python

    return Texts([(name, topics[name]) for name in sorted(topics)])
