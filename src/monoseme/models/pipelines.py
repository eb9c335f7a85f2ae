"""`HookedPipeline`: hooks inside a diffusers pipeline (SDXL and others), told apart by denoising step.

Any module of the pipeline is named from its component on, ``unet.down_blocks.2.attentions.1``. For U-Nets there are
short names, as in the literature on SDXL: ``down.2.1`` is ``unet.down_blocks.2.attentions.1``, ``mid.0`` is
``unet.mid_block.attentions.0``, ``up.0.1`` is ``unet.up_blocks.0.attentions.1``; in a block without attention they name
its resnets. The *output* of the module is meant, its input included; some work uses the difference of the two.

A module of the denoiser runs once a step. ``"down.2.1#3"`` is it at step 3; ``"down.2.1"`` is it at every step, one
behind another along the tokens. Steps are counted from 0 in every generation anew, by the time that the denoiser is
given: two passes at one time (guidance in two passes, a corrector) are one step, of which the first pass is read.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models.clock import Clock
from monoseme.models.facts import ModelFacts, TokenGrid
from monoseme.models.hooked import HookedModel
from monoseme.models.layout import main_tensor, replaced, to_tokens
from monoseme.models.probe import StopForward
from monoseme.models.prompts import from_row, to_row

__all__ = ["HookedPipeline"]

DENOISERS = ("unet", "transformer")
SHORT = re.compile(r"(down|up)\.(\d+)\.(\d+)|mid\.(\d+)")
HALVES = ("both", "conditional")


class Generation(nn.Module):
    """A whole generation as one module, whose children are the pipeline's modules."""

    def __init__(self, pipeline: Any, call: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__["pipeline"], self.call = pipeline, call
        for name, component in pipeline.components.items():
            if isinstance(component, nn.Module):
                self.add_module(name, component)

    def forward(self, x: Any = None, **call: Any) -> Tensor:
        """Pictures (B, H, W, 3) in 0…1 of rows of bytes (`prompts.to_row`), of texts, or of the pipeline's own call."""
        if x is not None:
            rows = x if isinstance(x, Tensor) else torch.stack(_rows([x] if isinstance(x, str) else x))
            pairs = [from_row(row) for row in rows.cpu()]
            call = {
                "prompt": [prompt for prompt, _ in pairs],
                "generator": [torch.Generator().manual_seed(seed) for _, seed in pairs],
                **call,
            }
        pipe = self.__dict__["pipeline"]
        shown = getattr(pipe, "_progress_bar_config", None)
        try:
            if hasattr(pipe, "set_progress_bar_config"):
                pipe.set_progress_bar_config(disable=True)
            return torch.as_tensor(pipe(**{"output_type": "np", **self.call, **call}).images)
        finally:
            if hasattr(pipe, "set_progress_bar_config"):
                pipe._progress_bar_config = shown or {}


def _rows(prompts: Sequence[str]) -> list[Tensor]:
    width = 8 + max(len(prompt.encode("utf-8", errors="surrogatepass")) for prompt in prompts)
    return [to_row(prompt, i, width) for i, prompt in enumerate(prompts)]


class HookedPipeline(HookedModel):
    """A diffusers pipeline with named hooks; edits act in `model(...)` and in the pipeline's own calls alike.

    `model(prompts)` gives pictures (B, H, W, 3) in 0…1; prompt i of a list has the noise of seed i, and `store.Prompts`
    makes samples of prompts and seeds for `harvest`. `run` reads the conditional half of a guided batch: the other half
    has no prompt to tell of. There are no gradients: pipelines take none.

    Parameters
    ----------
    pipeline
        A pipeline of diffusers, or anything that is called as one, with ``components`` among which there is a ``unet``
        or a ``transformer`` that takes a ``timestep``.
    halves
        Which part of a guided batch is edited. ``"both"`` (default): the network with the edit is one network, asked
        twice, and the edit does not grow with the guidance scale. ``"conditional"``: only with the prompt, so that
        guidance multiplies the edit as it does the prompt.
    steps
        Which denoising steps `run` keeps at a name without ``#``; all by default.
    facts
        Name, weights and caveat; the name is the pipeline's class by default.
    **call
        Of every generation: ``num_inference_steps=4, guidance_scale=5.0, height=512``, ...

    Raises
    ------
    UserError
        No denoiser, or ``"conditional"`` where the pipeline does not say whether it guides.

    Examples
    --------
    >>> pipe = StableDiffusionXLPipeline.from_pretrained(...)  # doctest: +SKIP
    >>> model = HookedPipeline(pipe, num_inference_steps=4)  # doctest: +SKIP
    >>> with ms.steer(model, "down.2.1", f, block=17, to=code, steps=[0, 1]):  # doctest: +SKIP
    ...     pictures = model("a lighthouse")
    """

    def __init__(
        self,
        pipeline: Any,
        halves: str = "both",
        steps: Sequence[int] | None = None,
        facts: ModelFacts | None = None,
        **call: Any,
    ) -> None:
        components = getattr(pipeline, "components", {})
        found = [part for part in DENOISERS if isinstance(components.get(part), nn.Module)]
        if not found or "timestep" not in inspect.signature(components[found[0]].forward).parameters:
            rule = "have a unet or a transformer that takes a timestep"
            raise refuse("pipeline", rule, type(pipeline).__name__, "Hook the module itself: HookedModel(module, ...).")
        kind = type(pipeline)
        if halves not in HALVES:
            raise refuse(
                "halves", f"be one of {', '.join(HALVES)}", repr(halves), "'both' is one network, asked twice."
            )
        if halves == "conditional" and not hasattr(kind, "do_classifier_free_guidance"):
            rule = "be 'both' for a pipeline that does not say whether it guides"
            raise refuse("halves", rule, f"{halves!r} for {kind.__name__}", "Its halves cannot be told apart.")
        super().__init__(Generation(pipeline, call), facts or ModelFacts(kind.__name__))
        self.pipeline, self.halves, self.steps, self.call = pipeline, halves, steps, call
        self.denoiser = found[0]

    @property
    def revision(self) -> str:
        """SHA-256 over the weights of all parts, the options of the call, and the steps that are kept."""
        options = repr((sorted((k, repr(v)) for k, v in self.call.items()), self.steps and list(self.steps)))
        return hashlib.sha256((super().revision + options).encode()).hexdigest()

    def find(self, name: str) -> tuple[str, int | None, nn.Module]:
        """Path, step and module behind a name; short names of a U-Net's blocks are spelled out."""
        path, hashed, step = name.partition("#")
        if (short := SHORT.fullmatch(path)) is not None and path not in self._modules:
            side, i, j, middle = short.groups()
            block = f"unet.mid_block.{{}}.{middle}" if side is None else f"unet.{side}_blocks.{i}.{{}}.{j}"
            parent = block.rpartition(".{}")[0]
            path = block.format("attentions" if f"{parent}.attentions" in self._modules else "resnets")
        return super().find(path + hashed + step)

    def run(self, x: Any, at: str | list[str], stop: bool = True, grad: bool = False) -> Any:
        """Activations, (B, T, d), at one hook or, as a dict, at several.

        Parameters
        ----------
        x
            Prompts, rows of bytes, or a dict of the pipeline's own arguments.
        at
            ``"NAME#3"``: at step 3. ``"NAME"``: at the steps of the model, tokens of one step behind those of another.
            Modules outside the denoiser are read as `HookedModel` reads them.
        stop, grad
            As in `HookedModel.run`; `grad` must be left out.
        """
        if grad:
            raise refuse("grad", "be left out for a pipeline", grad, "Pipelines take no gradients.")
        names = [at] if isinstance(at, str) else list(at)
        inside = {name: self._wanted(name) for name in names if self._denoises(name)}
        others = [name for name in names if name not in inside]
        found = super().run(x, others, stop) if others else {}
        if inside:
            found |= self._denoised(x, inside, stop)
        return found[at] if isinstance(at, str) else {name: found[name] for name in names}

    @contextmanager
    def edit(self, at: str, fn: Callable[[Float[Tensor, "B T d"]], Float[Tensor, "B T d"]]) -> Iterator[HookedModel]:
        """Within the ``with``, the output at this hook is ``fn(tokens)``: at one step, or (no ``#``) in every pass."""
        if not self._denoises(at):
            with super().edit(at, fn):
                yield self
            return
        _, only, module = self.find(at)
        with self._clock() as clock:

            def change(tokens: Tensor) -> Tensor:
                if self.halves == "both" or not clock.guides():
                    return fn(tokens)
                free, prompted = tokens.chunk(2)
                return torch.cat([free, fn(prompted)])

            def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
                return replaced(output, at, change) if only is None or clock.step == only else None

            handle = module.register_forward_hook(hook)
            try:
                yield self
            finally:
                handle.remove()

    @contextmanager
    def counting(self) -> Iterator[Callable[[], int]]:
        """Within the ``with``, a function that gives the denoising step under way."""
        with self._clock() as clock:
            yield lambda: clock.step

    def _forward(self, x: Any) -> Any:
        return self.module(**x) if isinstance(x, dict) else self.module(x)

    def _denoises(self, name: str) -> bool:
        return f"{self.find(name)[0]}.".startswith(f"{self.denoiser}.")

    def _wanted(self, name: str) -> list[int] | None:
        step = self.find(name)[1]
        if step is not None:
            return [step]
        return None if self.steps is None else list(self.steps)

    @contextmanager
    def _clock(self) -> Iterator[Clock]:
        denoiser = self.module.get_submodule(self.denoiser)
        clock = Clock(self.pipeline, denoiser)
        handle = denoiser.register_forward_pre_hook(clock.see, with_kwargs=True)
        try:
            yield clock
        finally:
            handle.remove()

    def _denoised(self, x: Any, names: dict[str, list[int] | None], stop: bool) -> dict[str, Tensor]:
        kept: dict[str, dict[int, Tensor]] = {name: {} for name in names}
        shapes: dict[str, torch.Size] = {}

        def complete() -> bool:
            return all(wanted is not None and set(wanted) <= set(kept[name]) for name, wanted in names.items())

        def watch(name: str, clock: Clock) -> Callable[..., None]:
            def hook(_module: nn.Module, _args: Any, output: Any) -> None:
                wanted = names[name]
                if clock.step in kept[name] or (wanted is not None and clock.step not in wanted):
                    return
                raw = main_tensor(output, name)
                tokens = to_tokens(raw, name)
                kept[name][clock.step] = (tokens.chunk(2)[1] if clock.guided else tokens).detach()
                shapes[name] = raw.shape
                if stop and complete():
                    raise StopForward

            return hook

        with self._at_rest(False), self._clock() as clock, ExitStack() as stack:
            for name in names:
                stack.callback(self.find(name)[2].register_forward_hook(watch(name, clock)).remove)
            with suppress(StopForward):
                self._forward(x)
        return {name: self._joined(name, wanted, kept[name], shapes.get(name)) for name, wanted in names.items()}

    def _joined(
        self, name: str, wanted: list[int] | None, kept: dict[int, Tensor], shape: torch.Size | None
    ) -> Float[Tensor, "B T d"]:
        """Tokens of the steps one behind another; their grids stand one below another."""
        if not kept or shape is None:
            raise refuse("at", "name a module and a step that a generation reaches", repr(name), "It never fired.")
        steps = sorted(kept) if wanted is None else wanted
        if missing := [step for step in steps if step not in kept]:
            got = f"step {missing[0]} of {max(kept) + 1}"
            raise refuse("steps", "be denoising steps of a generation", got, "Steps are counted from 0.")
        grid = TokenGrid(len(steps) * shape[2], shape[3], 0) if len(shape) == 4 else None
        self._grids[name] = grid
        return torch.cat([kept[step] for step in steps], 1)
