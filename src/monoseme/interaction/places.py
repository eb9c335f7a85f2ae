"""Where in a network gradients are taken: names, and the hooks that catch a tensor without changing what it computes.

``"blocks.3"`` is the *input* of that module, ``"blocks.3:out"`` its output (what `HookedModel.run` calls ``blocks.3``),
``"layer#1"`` its second call in a pass, ``"x"`` or None the network's own input. A gradient with respect to an input is
the one that comes back through this module; a tensor that is also read elsewhere has more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from monoseme.core.errors import closest, refuse
from monoseme.interaction.views import CONVOLUTIONS, Flat, OneHot, Own, Patches, Tokens, View, Windows
from monoseme.models import HookedModel
from monoseme.models.layout import main_tensor, put_back
from monoseme.models.probe import ambiguous

__all__ = ["OWN_INPUT", "VIEWS", "Place", "Tap", "place", "tapped"]

OWN_INPUT = "x"
VIEWS = ("auto", "tokens", "flat", "patches", "windows")

Swap = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """One end of one call of one module, and the view of the gradients there.

    Attributes
    ----------
    name
        As asked for.
    path, index, module
        Of the module; `index` None: its only call.
    view
        How gradients become rows; also says at which end the tensor is caught.
    sample_axis
        1 for recurrent and attention modules built with ``batch_first=False``.
    """

    name: str
    path: str
    index: int | None
    module: nn.Module
    view: View
    sample_axis: int = 0

    def samples_first(self, tensor: Tensor) -> Tensor:
        """The tensor with its samples on axis 0, or back: a swap of two axes is its own inverse."""
        return tensor.transpose(0, 1) if self.sample_axis else tensor


def place(model: HookedModel, at: str | None, view: str = "auto", window: int = 3) -> Place:
    """Resolve a name and a view.

    "auto" is "patches" at the input of a convolution, symbols at the input of an embedding, "flat" at a network's own
    picture (which shows when the pass runs), and else "tokens".
    """
    if view not in VIEWS:
        raise refuse("view", f"be one of {', '.join(VIEWS)}", repr(view), closest(view, VIEWS))
    if window < 1 or window % 2 == 0:
        raise refuse("window", "be odd and at least 1", window, "The authors' is 3.")
    name = OWN_INPUT if at is None else at
    own = name == OWN_INPUT and OWN_INPUT not in model.hooks()
    bare, _, suffix = name.partition(":")
    if suffix not in ("", "in", "out"):
        raise refuse("at", "end in ':in' (the default), ':out' or nothing", repr(name), f"For example '{bare}:out'.")
    path, index, module = ("", None, model.module) if own else model.find(bare)
    end = "out" if suffix == "out" else "in"
    axis = 0 if getattr(module, "batch_first", True) else 1
    return Place(name, path, index, module, _view(name, module, end, view, window, own), axis)


def _view(name: str, module: nn.Module, end: Any, view: str, window: int, own: bool) -> View:
    at_input = end == "in" and not own
    if isinstance(module, nn.Embedding) and at_input:
        if view in ("patches", "windows"):
            raise refuse("view", "be 'tokens' or 'flat' at an embedding", repr(view), "Its coordinates are symbols.")
        return OneHot(module, view == "flat")
    convolution = isinstance(module, CONVOLUTIONS)
    if view == "patches" or (view == "auto" and convolution and at_input):
        if not (isinstance(module, CONVOLUTIONS) and at_input):
            got = f"{view!r} at {name!r}, {'an output' if end == 'out' else type(module).__name__}"
            raise refuse("view", "be 'patches' only at the input of a convolution", got, "Name one, or use 'windows'.")
        return Patches(module)
    if view == "windows":
        return Windows(end, window)
    if view == "flat":
        return Flat(end)
    if own and view == "auto":
        return Own(end, name, convolution)
    last = isinstance(module, (nn.Linear, nn.LayerNorm, nn.Embedding))
    return Tokens(end, name, channels_first=convolution, channels_last=last)


class Tap:
    """Catches the tensor at one place in each pass and lets the module see `swap` of it."""

    def __init__(self, place: Place, swap: Swap) -> None:
        self.place, self.swap = place, swap
        self.calls, self.caught = 0, False

    def begin(self) -> None:
        """Before a pass."""
        self.calls, self.caught = 0, False

    def settle(self) -> None:
        """After a pass: one call was caught, and it was the one meant."""
        name, path, index = self.place.name, self.place.path, self.place.index
        if self.calls == 0:
            raise refuse("at", "name a module that the forward pass calls", repr(name), "It never fired.")
        if index is None and self.calls > 1:
            raise ambiguous(path, self.calls)
        if not self.caught:
            raise refuse("at", f"count a call in 0..{self.calls - 1}", repr(name), "Lower the number after '#'.")

    def before(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Pre-hook: swap the first tensor among the arguments."""
        if not self._mine():
            return None
        for key, value in (*enumerate(args), *kwargs.items()):
            if isinstance(value, Tensor):
                new = self.swap(self._floating(value))
                if isinstance(key, int):
                    return (*args[:key], new, *args[key + 1 :]), kwargs
                return args, {**kwargs, key: new}
        raise refuse("at", "name a module called with a tensor", repr(self.place.name), "Name one of its submodules.")

    def after(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        """Forward hook: swap the main tensor of the output."""
        if not self._mine():
            return None
        return put_back(output, self.swap(main_tensor(output, self.place.name)))

    def _mine(self) -> bool:
        mine = self.calls == (self.place.index or 0)
        self.calls += 1
        self.caught = self.caught or mine
        return mine

    def _floating(self, value: Tensor) -> Tensor:
        if value.is_floating_point():
            return value
        name = self.place.name
        raise refuse(
            "at",
            "name a place where numbers flow that can be differentiated",
            f"{name!r}, whose input is {str(value.dtype).removeprefix('torch.')}",
            "Name the embedding: 'NAME' for its symbols (one-hot), 'NAME:out' for its vectors.",
        )


@contextmanager
def tapped(taps: list[Tap]) -> Iterator[None]:
    """Within the ``with``, passes of the model run through the taps."""
    with ExitStack() as stack:
        for tap in taps:
            tap.begin()
            module = tap.place.module
            if tap.place.view.end == "in":
                handle = module.register_forward_pre_hook(tap.before, with_kwargs=True)
            else:
                handle = module.register_forward_hook(tap.after)
            stack.callback(handle.remove)
        yield
    for tap in taps:
        tap.settle()
