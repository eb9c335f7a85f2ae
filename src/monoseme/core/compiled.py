"""numba's `njit`, for the loops of every room. Importing this module costs half a second: loops are imported late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["compiled"]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`njit`, kept on disk where a folder for that can be written, else for this process only (locked containers)."""

    def keep(loop: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(loop)
        except RuntimeError:  # numba: "no locator available"
            return njit(**options)(loop)

    return keep
