"""`HookedModel`: reach inside any torch module. Every hook speaks tokens, (B, T, d), whatever the module's own layout.

Layouts, read from the shape of a module's output and nothing else:

=============  ==============================  ===========
output         read as                         tokens
=============  ==============================  ===========
(B, d)         one vector a sample             (B, 1, d)
(B, T, d)      tokens                          the same
(B, C, H, W)   a convolution's feature map     (B, H·W, C)
tuple or list  its element 0, as above         as above
=============  ==============================  ===========

Dictionaries and output dataclasses are refused: which of their tensors was meant would be a guess.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import closest, refuse
from monoseme.models.facts import ModelFacts, TokenGrid
from monoseme.models.layout import main_tensor, replaced
from monoseme.models.probe import Probe, StopForward, ambiguous

__all__ = ["HookedModel"]


class HookedModel:
    """A module with named hooks. It is never changed: flags and hooks are as found after every call, errors included.

    Forward passes run in evaluation mode and, unless `grad` says otherwise, without gradients.

    Parameters
    ----------
    module
        Any module. Called with one tensor, a tuple of arguments, or a dict of keyword arguments.
    facts
        What is known about it.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    >>> model = HookedModel(net, ModelFacts("tiny"))
    >>> model.hooks()
    ['0', '1']
    >>> model.run(torch.zeros(2, 3, 6, 6), at="1").shape, model.grid("1")
    (torch.Size([2, 16, 8]), TokenGrid(height=4, width=4, special=0))
    """

    def __init__(self, module: nn.Module, facts: ModelFacts) -> None:
        self.module = module
        self.facts = facts
        # with duplicates: a tied module answers to each of its names
        self._modules = {name: child for name, child in module.named_modules(remove_duplicate=False) if name}
        self._calls: dict[str, int] = {}
        self._grids: dict[str, TokenGrid | None] = {}

    @property
    def name(self) -> str:
        """Name in the registry, or the class of the module."""
        return self.facts.name

    @property
    def caveat(self) -> str:
        """One line to show beside every result of this model."""
        return self.facts.caveat

    @property
    def d_model(self) -> int | None:
        """Width of the residual stream, if known."""
        return self.facts.d_model

    @property
    def preprocess(self) -> Callable[[Any], Tensor] | None:
        """Turns one (H, W, 3) uint8 picture into the module's input."""
        return self.facts.preprocess

    @property
    def device(self) -> torch.device:
        """Where the weights are, and inputs must be."""
        first = next(self.module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights, and of the pictures prepared for them."""
        floating = (p.dtype for p in self.module.parameters() if p.is_floating_point())
        return next(floating, torch.float32)

    @property
    def revision(self) -> str:
        """SHA-256 over names, types, shapes and bytes of the state, computed anew: training the module changes it."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            plain = tensor.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"HookedModel({self.name!r}, weights={self.facts.weights!r}, hooks={len(self._modules)})"

    def __call__(self, x: Any, grad: bool = False) -> Any:
        """Full forward pass in the module's own output, with whatever edits are in force."""
        with self._at_rest(grad):
            return self._forward(x)

    def hooks(self, glob: str = "*") -> list[str]:
        """Names that `run` and `edit` take, in the order of `named_modules`; ``*`` matches dots too."""
        return [name for name in self._modules if fnmatch.fnmatchcase(name, glob)]

    @overload
    def run(self, x: Any, at: str, stop: bool = True, grad: bool = False) -> Tensor: ...
    @overload
    def run(self, x: Any, at: list[str], stop: bool = True, grad: bool = False) -> dict[str, Tensor]: ...
    def run(self, x: Any, at: str | list[str], stop: bool = True, grad: bool = False) -> Tensor | dict[str, Tensor]:
        """Activations, (B, T, d), at one hook; or at several from one pass, as a dict, when `at` is a list.

        Parameters
        ----------
        x
            Input of the module: a tensor, a tuple of arguments, or a dict of keyword arguments.
        at
            Hook name, or a list of names. A module that one forward pass calls several times needs the call as well,
            counted from 0: ``"layer#1"``. The first `run` at a bare name is a full pass, to see that its call is alone.
        stop
            End the forward pass as soon as every hook has fired.
        grad
            Keep the graph, so that activations can be differentiated.

        Raises
        ------
        UserError
            When the hook does not exist, never fires, fires more than once without an index, or gives no tensor.
        """
        names = [at] if isinstance(at, str) else list(at)
        if not names:
            raise refuse("at", "name at least one hook", "an empty list", "See .hooks().")
        probes = [Probe(name, *self.find(name)) for name in names]
        stop = stop and all(probe.index is not None or probe.path in self._calls for probe in probes)
        self._capture(x, probes, stop, grad)
        for probe in probes:
            self._settle(probe, stop)
            self._grids[probe.name] = self._grid_of(x, probe)
        found = {probe.name: probe.tokens() for probe in probes}
        return found[at] if isinstance(at, str) else found

    def grid(self, at: str) -> TokenGrid | None:
        """Token grid of the last `run` at this hook; None when there was no run, or its tokens are not a picture's."""
        self.find(at)
        return self._grids.get(at)

    @contextmanager
    def edit(self, at: str, fn: Callable[[Float[Tensor, "B T d"]], Float[Tensor, "B T d"]]) -> Iterator[HookedModel]:
        """Within the ``with``, the output at this hook is ``fn(tokens)``, put back in the module's own layout.

        Examples
        --------
        >>> model = HookedModel(nn.Sequential(nn.Identity(), nn.ReLU()), ModelFacts("tiny"))
        >>> with model.edit("0", lambda tokens: tokens + 1):
        ...     model(torch.zeros(1, 2))
        tensor([[1., 1.]])
        """
        path, index, module = self.find(at)
        calls = 0

        def begin(_module: nn.Module, _args: Any) -> None:
            nonlocal calls
            calls = 0

        def replace(_module: nn.Module, _args: Any, output: Any) -> Any:
            nonlocal calls
            calls += 1
            if index is None and calls > 1:
                raise ambiguous(path, calls, "at least ")
            if index is not None and calls - 1 != index:
                return None
            return replaced(output, at, fn)

        handles = [self.module.register_forward_pre_hook(begin), module.register_forward_hook(replace)]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def counting(self) -> Iterator[Callable[[], int]]:
        """Within the ``with``, a function that gives the number of the forward pass under way, counted from 0."""
        passes = -1

        def begin(_module: nn.Module, _args: Any) -> None:
            nonlocal passes
            passes += 1

        handle = self.module.register_forward_pre_hook(begin)
        try:
            yield lambda: passes
        finally:
            handle.remove()

    def find(self, name: str) -> tuple[str, int | None, nn.Module]:
        """Path, call index (None: the only call) and module behind a hook's name, ``"layer"`` or ``"layer#1"``."""
        path, _, call = name.partition("#")
        if path not in self._modules:
            raise refuse("at", f"name a module of {self.name}", repr(name), closest(path, self._modules))
        if call and not call.isdecimal():
            raise refuse("at", "count the call from 0 after '#'", repr(name), f"For example '{path}#0'.")
        return path, int(call) if call else None, self._modules[path]

    def _forward(self, x: Any) -> Any:
        if isinstance(x, dict):
            return self.module(**x)
        return self.module(*x) if isinstance(x, tuple) else self.module(x)

    @contextmanager
    def _at_rest(self, grad: bool) -> Iterator[None]:
        """Evaluation mode, then every submodule's own flag again; gradients only when asked."""
        flags = [(child, child.training) for child in self.module.modules()]
        try:
            self.module.eval()
            # not inference_mode: its tensors can never again take part in a training step
            with torch.set_grad_enabled(grad):
                yield
        finally:
            for child, flag in flags:
                child.training = flag

    def _capture(self, x: Any, probes: list[Probe], stop: bool, grad: bool) -> None:
        waiting = {id(probe) for probe in probes}

        def watch(probe: Probe) -> Callable[..., None]:
            def hook(_module: nn.Module, _args: Any, output: Any) -> None:
                if probe.see(output):
                    waiting.discard(id(probe))
                if stop and not waiting:
                    raise StopForward

            return hook

        with self._at_rest(grad), ExitStack() as stack:
            for probe in probes:
                stack.callback(probe.module.register_forward_hook(watch(probe)).remove)
            with suppress(StopForward):
                self._forward(x)

    def _settle(self, probe: Probe, stopped: bool) -> None:
        if not stopped:
            self._calls[probe.path] = probe.calls
        calls = self._calls.get(probe.path, probe.calls)
        if probe.calls == 0:
            raise refuse("at", "name a module that the forward pass calls", repr(probe.name), "It never fired.")
        if probe.index is None and calls > 1:
            raise ambiguous(probe.path, calls)
        if probe.output is None:
            raise refuse("at", f"count a call in 0..{calls - 1}", repr(probe.name), "Lower the number after '#'.")

    def _grid_of(self, x: Any, probe: Probe) -> TokenGrid | None:
        shape = main_tensor(probe.output, probe.name).shape
        if len(shape) == 4:
            return TokenGrid(shape[2], shape[3], 0)
        patch, special = self.facts.patch, self.facts.special_tokens
        if len(shape) != 3 or patch is None or not isinstance(x, Tensor) or x.ndim != 4:
            return None
        height, width = x.shape[2] // patch, x.shape[3] // patch
        return TokenGrid(height, width, special) if shape[1] == special + height * width else None
