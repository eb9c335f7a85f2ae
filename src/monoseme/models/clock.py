"""`Clock`: which denoising step a diffusion pipeline is in, told from what its denoiser is given."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from monoseme.core.errors import refuse

__all__ = ["Clock"]


class Clock:
    """Reads the denoiser's arguments before every pass.

    Times go down within a generation, so that a time above the last one begins another generation, and an equal one is
    another pass of the same step.

    Attributes
    ----------
    step
        Under way, counted from 0; -1 before the first.
    guided
        Whether the batch holds two halves: without the prompt, then with it.
    """

    def __init__(self, pipeline: Any, denoiser: nn.Module) -> None:
        self.pipeline, self.signature = pipeline, inspect.signature(denoiser.forward)
        self.step, self.guided = -1, False
        self._time = float("inf")

    def see(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take the time and the batch; a forward pre-hook with keyword arguments."""
        given = self.signature.bind_partial(*args, **kwargs).arguments
        now = float(torch.as_tensor(given["timestep"]).max())
        if self.step < 0 or now > self._time:
            self.step = 0
        elif now < self._time:
            self.step += 1
        self._time = now
        batch = next(iter(given.values()))
        self.guided = self._says() and isinstance(batch, Tensor) and _twice(batch)

    def guides(self) -> bool:
        """Whether the batch holds two halves; refuses guidance of another form, of which no half is known."""
        if self._says() and not self.guided:
            rule = "be 'both' for guidance that is not one batch of two halves"
            raise refuse("halves", rule, f"'conditional' for {type(self.pipeline).__name__}", "Edit both.")
        return self.guided

    def _says(self) -> bool:
        return bool(getattr(self.pipeline, "do_classifier_free_guidance", False))


def _twice(batch: Tensor) -> bool:
    """Whether the second half repeats the first, as guidance in one batch does with the noisy picture."""
    half, odd = divmod(len(batch), 2)
    return not odd and half > 0 and torch.equal(batch[:half], batch[half:])
