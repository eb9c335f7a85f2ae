"""Numbers that are computed once: kept in a file, and used again while what they were computed from is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from monoseme.core.files import read_json, write_json

__all__ = ["Remembered", "digest"]


def digest(value: object) -> str:
    """SHA-256 of plain JSON values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


class Remembered:
    """A file of named plain values, all computed from one thing. Each is written as soon as it is known.

    Values of another identity, and values that were changed by hand, are computed anew: it is a cache.

    Parameters
    ----------
    path
        The file.
    identity
        Everything the values depend on, as plain JSON values.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, digest(identity)
        found = read_json(path) if path.exists() else {}
        same = isinstance(found, dict) and found.get("identity") == self.identity
        values = found.get("values") if same else None
        self._values: dict[str, Any] = values if isinstance(values, dict) and found["digest"] == digest(values) else {}

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the value of that name; `make` is called only when it is not there."""
        if name not in self._values:
            self.set(name, make())
        return self._values[name]

    def peek(self, name: str) -> Any:
        """Return the value of that name, or None."""
        return self._values.get(name)

    def set(self, name: str, value: Any) -> None:
        """Keep a value."""
        # as JSON gives it back, so that the first time and every later one see the same
        self._values[name] = json.loads(json.dumps(value, allow_nan=False))
        write_json(self.path, {"identity": self.identity, "values": self._values, "digest": digest(self._values)})
