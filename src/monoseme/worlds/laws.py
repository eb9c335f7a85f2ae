"""How strongly an active concept acts: laws of magnitudes, with their first two moments in closed form.

A magnitude is drawn for every active (row, concept), independently of everything else. A positive law makes nonnegative
codes; `Normal` around 0, or a `Uniform` across 0, makes signed ones with mean zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse

__all__ = ["Constant", "Exponential", "Law", "Normal", "Uniform"]


@runtime_checkable
class Law(Protocol):
    """A law of magnitudes with finite second moment."""

    @property
    def mean(self) -> float:
        """E a."""
        ...

    @property
    def square(self) -> float:
        """E a²."""
        ...

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, " n"]:
        """`n` independent magnitudes."""
        ...


@dataclass(frozen=True)
class Constant:
    """a = value, always: a concept that is on or off and nothing between."""

    value: float = 1.0

    def __post_init__(self) -> None:
        if self.value == 0:
            raise refuse("value", "not be 0", self.value, "A part that is on must be seen.")

    @property
    def mean(self) -> float:
        """E a."""
        return self.value

    @property
    def square(self) -> float:
        """E a²."""
        return self.value**2

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, " n"]:
        """Repeat the value; the stream is left alone."""
        return np.full(n, self.value, dtype=np.float64)


@dataclass(frozen=True)
class Uniform:
    """a ~ U(low, high)."""

    low: float = 0.5
    high: float = 1.5

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise refuse("low", f"lie below high = {self.high}", self.low, "Or take Constant(value).")

    @property
    def mean(self) -> float:
        """(low + high)/2."""
        return (self.low + self.high) / 2

    @property
    def square(self) -> float:
        """(low² + low·high + high²)/3."""
        return (self.low**2 + self.low * self.high + self.high**2) / 3

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, " n"]:
        """Draw a."""
        return stream.uniform(self.low, self.high, n)


@dataclass(frozen=True)
class Exponential:
    """a = floor + Exp(spread): a heavy upper tail; a floor above 0 keeps "on" apart from "off"."""

    floor: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise refuse("spread", "be above 0", self.spread, "Or take Constant(value).")

    @property
    def mean(self) -> float:
        """Floor + spread."""
        return self.floor + self.spread

    @property
    def square(self) -> float:
        """(floor + spread)² + spread²."""
        return self.mean**2 + self.spread**2

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, " n"]:
        """Draw a."""
        return self.floor + stream.exponential(self.spread, n)


@dataclass(frozen=True)
class Normal:
    """a ~ N(mean, spread²): signed."""

    mean: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise refuse("spread", "be above 0", self.spread, "Or take Constant(value).")

    @property
    def square(self) -> float:
        """mean² + spread²."""
        return self.mean**2 + self.spread**2

    def draw(self, stream: np.random.Generator, n: int) -> Float64[np.ndarray, " n"]:
        """Draw a."""
        return stream.normal(self.mean, self.spread, n)
