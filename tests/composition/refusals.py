"""What every refusal must be: one line that says the word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from monoseme.core.errors import UserError

__all__ = ["check_refused"]


def check_refused(call: Callable[[], Any], says: str) -> None:
    """Fail unless the call is refused in one line with this word."""
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert says in str(caught.value)
