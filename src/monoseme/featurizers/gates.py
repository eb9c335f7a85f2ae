"""Gates: which blocks are active. A gate sees nothing but the norms of the projected pre-code.

A new gate is a class with `select`, one function in the zoo and one line in the tests' case list. The other methods
have defaults that do nothing: a gate with thresholds of its own (`thresholds`) or one that looks at the dictionary
(`selection`) overrides some of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.cones import Sign, block_norms
from monoseme.core.errors import refuse
from monoseme.core.kernels import fast
from monoseme.core.support import Support

__all__ = ["BatchTopK", "Gate", "Positive", "TopK", "safe_norms"]


class Gate(nn.Module, ABC):
    """Norms ↦ support, and what may follow from it.

    Attributes
    ----------
    mostly_on
        Training starts with a large share of blocks active: then dense products beat sparse loops.
    lam
        Weight of the penalty that a fit uses unless told otherwise; ``None``: none suits all, it must be told.
    target
        Blocks a row that the fit must hold by its penalty; ``None`` when the gate fixes L0, or the weight decides.
    control
        How: see `control`.
    """

    mostly_on: bool = False
    lam: float | None = 0.0
    target: float | None = None
    control: str = "fixed"

    @abstractmethod
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Support of every row. Not differentiated: gradients flow through the values at the support.

        `training` is said by the objective alone; without it a row's support must not depend on the other rows.
        """

    def shrink(self, values: Float[Tensor, "nnz b"], support: Support) -> Float[Tensor, "nnz b"]:
        """Turn the values of the active blocks into codes, with gradients; by default they are the codes."""
        return values

    def dense(self, blocks: Float[Tensor, "n G b"], support: Support) -> Float[Tensor, "n G b"]:
        """Codes with zeros written out, by plain autograd: the slow twin of `shrink` and `edge`."""
        return blocks * support.to_mask().unsqueeze(-1)

    def edge(
        self, pre: Float[Tensor, "n Gb"], atoms: Float[Tensor, "G b d"], sign: Sign
    ) -> Float[Tensor, "n d"] | None:
        """Zero rows that carry the reconstruction's gradient to thresholds, where crossing one makes a jump."""
        return None

    def price(
        self, values: Float[Tensor, "nnz b"], support: Support, pre: Float[Tensor, "n Gb"], sign: Sign
    ) -> Float[Tensor, ""]:
        """Return what the penalty weighs, summed over the rows: Σ‖z_g‖ by default."""
        return safe_norms(values).sum()

    def begin(self, norms: Float[Tensor, "n G"]) -> None:
        """Take a start from the norms of the first pre-codes."""

    def calibrate(self, norms: Float[Tensor, "n G"]) -> None:
        """After training: adjust to the norms of pre-codes on held-out rows."""

    @property
    def calibrates(self) -> bool:
        """Whether `calibrate` does anything."""
        return type(self).calibrate is not Gate.calibrate

    def refresh(self, atoms: Float[Tensor, "G b d"], step: int | None = None) -> None:
        """Look at the dictionary again: after optimiser step `step`, or at once when none is given."""


class Positive(Gate):
    """Every block of non-zero norm. With the cone R₊ and b = 1 this is the ReLU."""

    mostly_on = True
    lam = None

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """All blocks with a norm above zero."""
        return Support.from_mask(block_norms(pre.unflatten(1, (-1, block_size)), sign) > 0)


class TopK(Gate):
    """The k blocks of largest norm on every row; fewer where fewer are non-zero; of equal norms the lower index."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Π_k, per row."""
        return fast.select_topk(pre, block_size, self.k, sign)


class BatchTopK(Gate):
    """The n·k blocks of largest norm in a batch of n rows; at inference, every norm above one threshold (2412.06410).

    While training, the threshold follows the batches' own cuts, so that every checkpoint has a usable one; `calibrate`
    then sets it so that held-out rows have k active blocks on average.
    """

    threshold: Tensor
    RATE = 0.05  # of the running mean, which starts from the first rows and so carries no bias

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("threshold", torch.tensor(-1.0))

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Per batch in training, per row by the threshold otherwise."""
        norms = block_norms(pre.unflatten(1, (-1, block_size)), sign)
        if training:
            mask, cut = _largest(norms, self.k * len(norms))
            self.threshold += self.RATE * (cut - self.threshold)
            return Support.from_mask(mask)
        if self.threshold < 0:
            raise refuse("featurizer", "be fitted before it encodes", "a BatchTopK without threshold", "Fit it first.")
        return Support.from_mask(norms > self.threshold)

    def begin(self, norms: Float[Tensor, "n G"]) -> None:
        """Start from the first rows."""
        self.calibrate(norms)

    def calibrate(self, norms: Float[Tensor, "n G"]) -> None:
        """Put the threshold where the rows have k active blocks on average."""
        self.threshold.copy_(cut_for(norms, self.k))


@torch.no_grad()
def _largest(norms: Float[Tensor, "n G"], count: int) -> tuple[Tensor, Float[Tensor, ""]]:
    """Mask of the `count` largest norms of all, those of zero norm left out, and the smallest of them."""
    flat = norms.reshape(-1)
    values, places = flat.topk(min(count, len(flat)), sorted=False)
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[places] = values > 0
    return mask.reshape(norms.shape), values.min()


@torch.no_grad()
def cut_for(norms: Float[Tensor, "n G"], l0: float) -> Float[Tensor, ""]:
    """Return the threshold above which rows have `l0` entries on average: between the entries on either side of it.

    Equal rows have equal norms, which no threshold parts; it then lies beside them, where the average is nearest. A
    threshold on a norm itself would leave to rounding which of them pass.
    """
    flat = norms.reshape(-1)
    count = min(max(round(l0 * len(norms)), 1), max(len(flat) - 1, 1))
    top = flat.topk(min(count + 1, len(flat))).values
    if top[-1] < top[count - 1]:
        return (top[-1] + top[count - 1]) / 2
    tie = top[-1]
    over, under = flat[flat > tie], flat[flat < tie]
    above = len(over), (tie + over.min()) / 2 if len(over) else None
    below = int((flat >= tie).sum()), (tie + (under.max() if len(under) else 0)) / 2
    return above[1] if above[1] is not None and count - above[0] < below[0] - count else below[1]


def safe_norms(values: Float[Tensor, "*n b"]) -> Float[Tensor, "*n"]:
    """‖z_g‖ with gradient zero at zero (autograd's square root would give NaN there)."""
    if values.shape[-1] == 1:
        return values.squeeze(-1).abs()
    square = values.square().sum(-1)
    positive = square > 0
    return torch.where(positive, square, torch.ones_like(square)).sqrt() * positive
