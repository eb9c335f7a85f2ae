"""What "the AGOP" was in each published experiment: eight conventions, by name.

Facts from the public code of 2605.27989's first author; none of them is told in the paper's abstract. They differ in
side, function, place and estimator, so their numbers do not compare with one another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import closest, refuse
from monoseme.interaction.agop import agop
from monoseme.interaction.functions import Function, last_logits
from monoseme.interaction.how import How
from monoseme.interaction.matrix import Agop
from monoseme.interaction.pieces import Piece
from monoseme.models import HookedModel

__all__ = ["CONVENTIONS", "Convention", "Projected", "agop_as", "centred_logits"]


class Projected:
    """Fixed Gaussian combinations of the last position's logits, P y with P of variance 1/rows."""

    def __init__(self, rows: int = 64, seed: int = 42) -> None:
        self.rows, self.seed = rows, seed

    def matrix(self, outputs: int) -> Float[Tensor, "rows K"]:
        """P."""
        drawn = torch.randn(self.rows, outputs, generator=torch.Generator().manual_seed(self.seed))
        return drawn / math.sqrt(self.rows)

    def __call__(self, output: Any, piece: Piece) -> Float[Tensor, "n rows"]:
        """P y."""
        y = last_logits(output, piece)
        return y @ self.matrix(y.shape[1]).to(y).T


def centred_logits(output: Any, piece: Piece) -> Float[Tensor, "n K"]:
    """Logits of the last position, minus their mean, ÷ their root mean square: free of the logits' scale."""
    y = last_logits(output, piece)
    y = y - y.mean(1, keepdim=True)
    return y / y.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)


@dataclass(frozen=True)
class Convention:
    """One experiment's AGOP.

    Attributes
    ----------
    used
        Where.
    side, of, probes, how
        As for `agop`.
    """

    used: str
    side: str
    of: str | Function
    probes: int | None
    how: How = field(default_factory=How)


GAUSSIAN = How(law="gaussian")

CONVENTIONS: dict[str, Convention] = {
    "toy": Convention("toy autoencoder, double descent", "output", "outputs", None),
    "toy-input": Convention("toy autoencoder, later code", "input", "outputs", None),
    "budget-sweep": Convention("TinyGPT budgets, source of [0.023, 0.047]", "output", Projected(), 64, GAUSSIAN),
    "gpt-scan": Convention("TinyGPT shape scan: loss against token embeddings", "input", "loss", None),
    "cnn-scan": Convention("CNN shape scan", "input", "outputs", 2, How(view="windows", law="gaussian")),
    "mlp-scan": Convention("MLP shape scan", "input", "outputs", 2, GAUSSIAN),
    "teacher": Convention("teacher-student sweeps", "output", "outputs", 64, GAUSSIAN),
    "one-hot": Convention("follow-up: symbols of all positions", "input", centred_logits, 32, How(view="flat")),
}  # fmt: skip


def agop_as(
    name: str,
    model: nn.Module | HookedModel | str,
    inputs: Any,
    at: str | None = None,
    *,
    targets: Tensor | None = None,
) -> Agop:
    """Return `agop` under a convention by name; energies of published numbers are plug-in ones (the default).

    Parameters
    ----------
    name
        One of `CONVENTIONS`.
    model, inputs, targets
        As for `agop`.
    at
        The network's own input by default. For token models name the place: "blocks.0" is token plus position embedding
        ("budget-sweep"), "token:out" the token embedding ("gpt-scan"), "token" the symbols ("one-hot").
    """
    if name not in CONVENTIONS:
        raise refuse("name", f"be one of {', '.join(CONVENTIONS)}", repr(name), closest(name, CONVENTIONS))
    c = CONVENTIONS[name]
    return agop(model, inputs, at, side=c.side, of=c.of, probes=c.probes, targets=targets, how=c.how)
