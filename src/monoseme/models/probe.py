"""What one requested hook sees in one forward pass, and how a pass ends early."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import UserError, refuse
from monoseme.models.layout import main_tensor, to_tokens

__all__ = ["Probe", "StopForward", "ambiguous"]


class StopForward(BaseException):
    """Ends a forward pass early. Not an Exception, so that no model's own `except Exception` swallows it."""


class Probe:
    """What one requested hook has seen in one forward pass."""

    def __init__(self, name: str, path: str, index: int | None, module: nn.Module) -> None:
        self.name, self.path, self.index, self.module = name, path, index, module
        self.calls = 0
        self.output: Any = None

    def see(self, output: Any) -> bool:
        """Keep the output if it is the wanted call; say whether it was."""
        wanted = self.calls == (self.index or 0)
        self.calls += 1
        if wanted:
            self.output = output
        return wanted

    def tokens(self) -> Float[Tensor, "B T d"]:
        """Return the output in token layout."""
        return to_tokens(main_tensor(self.output, self.name), self.name)


def ambiguous(path: str, calls: int, more: str = "") -> UserError:
    """Build the error for a module called several times when no call was chosen."""
    return refuse(
        "at",
        "say which call is meant",
        f"{path!r}, which one forward pass calls {more}{calls} times",
        f"Write '{path}#0' to '{path}#{calls - 1}'.",
    )
