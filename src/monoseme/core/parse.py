"""Reading JSON that a person or another program may have touched: every surprise is one line naming file and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from monoseme.core.errors import UserError, refuse
from monoseme.core.outcome import Outcome

__all__ = ["Entry"]

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Entry:
    """A JSON value and where it stands: ``results/record.json: cards[3].block``."""

    value: Any
    path: str

    def mapping(self) -> Mapping[str, Any]:
        """Return the value as a mapping with text keys."""
        return self._typed(self.value, dict, self.path)

    def get(self, key: str, kind: type[T]) -> T:
        """Return the field `key`, which must be there and be a `kind`."""
        mapping = self.mapping()
        if key not in mapping:
            raise refuse(f"{self.path}: {key}", "be there", "nothing", "The file is damaged or not one of ours.")
        return self._typed(mapping[key], kind, f"{self.path}: {key}")

    def items(self, key: str | None = None) -> list[Entry]:
        """Return the elements of the list in the field `key`, or of the value itself."""
        path = self.path if key is None else f"{self.path}: {key}"
        values = self._typed(self.value, list, path) if key is None else self.get(key, list)
        return [Entry(value, f"{path}[{i}]") for i, value in enumerate(values)]

    def fields(self, key: str) -> Iterator[tuple[str, Entry]]:
        """Yield the fields of the mapping in the field `key`."""
        for name, value in self.get(key, dict).items():
            yield name, Entry(value, f"{self.path}: {key}[{name!r}]")

    def pair(self, first: type[T], second: type[U]) -> tuple[T, U]:
        """Return the value as a pair."""
        values = self._typed(self.value, list, self.path)
        if len(values) != 2:
            raise refuse(self.path, "be a pair", f"{len(values)} values", "The file is damaged.")
        return self._typed(values[0], first, self.path), self._typed(values[1], second, self.path)

    def outcome(self) -> Outcome:
        """Return the value as an outcome."""
        outcome = self.build(Outcome)
        numbers = (outcome.value, outcome.low, outcome.high)
        sound = all(n is None or (isinstance(n, (int, float)) and not isinstance(n, bool)) for n in numbers)
        texts = (outcome.name, outcome.unit, outcome.n_unit, outcome.note)
        if not sound or not all(isinstance(text, str) for text in texts):
            raise refuse(self.path, "be an outcome: texts, and numbers or null", self.value, "The file is damaged.")
        return outcome

    def build(self, kind: type[T]) -> T:
        """Return ``kind(**value)``; unknown or missing fields are one-line errors."""
        try:
            return kind(**self.mapping())
        except UserError:
            raise
        except TypeError as error:
            raise refuse(
                self.path, f"be a {kind.__name__}", error, "The file is damaged or of another version."
            ) from None

    @staticmethod
    def _typed(value: Any, kind: type[T], path: str) -> T:
        # JSON's true is an int to Python
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise refuse(path, f"be a {kind.__name__}", f"a {type(value).__name__}", "The file is damaged.")
        return value
