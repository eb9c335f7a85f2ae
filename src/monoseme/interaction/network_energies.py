"""Energies of a trained network between its input and its outputs, the same way for every shape.

Output side G = E[J Jᵀ], whose size does not change with the shape. For text: logits at the last position, projected to
64 Gaussian combinations (fixed), against token plus position embeddings, sketched with Gaussian directions: the
convention of the budget sweep of arXiv 2605.27989's first author. For classes and values: all outputs, exact; and the
input side too, E[Jᵀ J].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from monoseme.core.outcome import Outcome
from monoseme.core.seeds import generator
from monoseme.interaction.agop import agop
from monoseme.interaction.how import How
from monoseme.interaction.matrix import Agop
from monoseme.interaction.tasks import Task

__all__ = ["Measured", "network_energies"]

NAMES = ("aofe_ratio", "aofe", "normalised_aofe", "participation_ratio", "excess")


@dataclass(frozen=True)
class Measured:
    """How energies are taken.

    Attributes
    ----------
    samples
        Test rows, the first ones.
    probes
        Directions a sample for text.
    projected
        Combinations of a text's logits.
    seed
        Of the combinations and the directions.
    """

    samples: int = 512
    probes: int = 1
    projected: int = 64
    seed: int = 42


def network_energies(module: nn.Module, task: Task, measured: Measured) -> dict[str, Outcome | float]:
    """Unbiased energies with intervals over test rows, and the plug-in ratio that published numbers are.

    Names end in ``_out`` or ``_in``: ``ratio``, ``aofe``, ``normalised_aofe`` (AOFE ÷ tr², free of the outputs' scale),
    ``participation_ratio``, ``excess`` over a random basis, ``plugin_ratio``.
    """
    x = next(iter(task.test.in_order(min(measured.samples, len(task.test))))).x
    like = next(module.parameters(), x)
    inputs, targets = task.split(x.to(like.device, like.dtype))
    if task.kind == "tokens":
        return _named(_text(module, inputs, measured), "out")
    found: dict[str, Outcome | float] = {}
    for side, name in (("output", "out"), ("input", "in")):
        of = "logits" if task.kind == "classes" else _Last(targets.shape[1])
        made = agop(module, inputs, side=side, of=of, how=How(view="flat", memory=1 << 28))
        found |= _named(made, name)
    return found


def _text(module: nn.Module, tokens: Tensor, measured: Measured) -> Agop:
    columns = int(getattr(module, "head").weight.shape[0])  # noqa: B009
    project = torch.randn(columns, measured.projected, generator=generator(measured.seed, "logits"))
    of = _Projected(project / math.sqrt(measured.projected))
    how = How(law="gaussian", seed=measured.seed, memory=1 << 28, chunk=8)
    return agop(module, tokens, "blocks.0", side="output", of=of, probes=measured.probes, how=how)


class _Projected:
    """Combinations of the logits at the last position."""

    def __init__(self, project: Tensor) -> None:
        self.project = project

    def __call__(self, output: Any, _piece: Any) -> Tensor:
        return output[:, -1] @ self.project.to(output)


class _Last:
    """The last steps of a sequence of single values."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self, output: Any, _piece: Any) -> Tensor:
        return output[:, -self.steps :, 0]


def _named(made: Agop, side: str) -> dict[str, Outcome | float]:
    found: dict[str, Outcome | float] = {}
    for name in NAMES:
        label = f"{name.removeprefix('aofe_')}_{side}"
        one = made.energy(name, population=True)
        found[label] = Outcome(label, one.value, one.unit, one.low, one.high, n=one.n, n_unit=one.n_unit, note=one.note)
    plain = made.aofe_ratio().value
    return {**found, f"plugin_ratio_{side}": float("nan") if plain is None else plain}
