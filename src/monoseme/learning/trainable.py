"""What the training loop asks of an object: eight methods, and nothing about what is inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from monoseme.core.rows import RowSource

__all__ = ["Trainable"]


@runtime_checkable
class Trainable(Protocol):
    """An object whose parameters are changed by gradient.

    A step is `loss`, backward, `before_step`, the checks for non-finite numbers, the optimiser's step, `after_step`.
    An object may also have ``adam_parameters()``: those of its parameters that Adam keeps when the optimiser is "muon".
    Random draws inside these methods must come from `core.seeds` (a function of `step`), or resuming is not exact.
    """

    def parameters(self) -> Iterable[nn.Parameter]:
        """The parameters, always in the same order. Read once, after `begin` or `load_state`."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on bit for bit: parameters, buffers, counters."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        ...

    def begin(self, rows: RowSource) -> None:
        """Initialise from data (mean, scale). Called once before step 0, not on resume."""
        ...

    def loss(self, x: Tensor, step: int) -> tuple[Tensor, Mapping[str, float | Tensor]]:
        """Scalar to descend on, and the numbers to log, for rows `x` of shape (n, d_in).

        Numbers may be scalar tensors: they are read only when a line is logged, so they cost no synchronisation.
        """
        ...

    def before_step(self, step: int) -> None:
        """Take from the gradients what a constraint would undo. Called after every backward, without gradients."""
        ...

    def after_step(self, step: int) -> None:
        """Apply constraints (unit norms, retraction). Called after every optimiser step, without gradients."""
        ...

    def finish(self) -> None:
        """Leave the object ready for use (final retraction). Called once, after the last step."""
        ...
