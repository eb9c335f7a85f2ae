"""Two remedies against absorption, as additions to the training loss of a scalar nonnegative featurizer.

An absorbing pair has a signature in the terms of the optimality conditions (arXiv 2606.02385): the child's atom leans
on the parent's, c_jk > 0, although the parent is silent where the child fires, ρ_jk = E[z_k 1{z_j > 0}] / m_k near 0.
Its strain (1 - c)/(1 - ρ) is below 1. So

    coherence      Σ_{j≠k} m_k (c_jk - ρ_jk)₊²           atoms may be alike only as far as they fire together

with m and ρ of the batch, without gradient. Penalising the certificate itself would do the opposite: what the L1 loss
wants is absorption, and a dictionary without violations is one that has absorbed.

    prefixes       the error of the first K₁, K₂, ... latents alone is added (nested, "Matryoshka")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.objective import Objective

__all__ = ["Remedied", "coherence"]


def coherence(z: Float[Tensor, "n K"], atoms: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
    """Σ_{j≠k} m_k (c_jk - ρ_jk)₊²; gradient to the atoms only. 0 where all that is alike fires together."""
    with torch.no_grad():
        mass = z.mean(0)
        together = (z > 0).to(z.dtype).T @ z / len(z)  # [j, k] E[1{z_j > 0} z_k]
        share = together / mass.clamp_min(1e-12)
    unit = torch.nn.functional.normalize(atoms, dim=1)
    excess = (unit @ unit.T - share).clamp_min(0) * (1 - torch.eye(len(atoms), dtype=z.dtype, device=z.device))
    return (mass * excess.square()).sum()


class Remedied(Objective):
    """`Objective` with remedies, for `learning.train`. It encodes twice and holds dense codes: for small widths.

    Parameters
    ----------
    featurizer
        Blocks of size 1 with nonnegative codes.
    weight
        Of `coherence`, in training units; 0 for none.
    prefixes
        Widths whose errors are added, each with weight 1; ascending, below K.
    options
        As of `Objective`.
    """

    def __init__(
        self, featurizer: Featurizer, *, weight: float = 0.0, prefixes: Sequence[int] = (), **options: Any
    ) -> None:
        if featurizer.block_size != 1 or featurizer.sign != "nonneg":
            got = f"b = {featurizer.block_size}, {featurizer.sign}"
            raise refuse("featurizer", "have nonnegative codes and blocks of size 1", got, "Use ReLU or TopK.")
        if not weight >= 0:
            raise refuse("weight", "be at least 0", weight, "It weighs the coherence of atoms.")
        if any(not 0 < p < featurizer.n_blocks for p in prefixes):
            raise refuse("prefixes", f"lie in 1..{featurizer.n_blocks - 1}", list(prefixes), "They are widths below K.")
        super().__init__(featurizer, **options)
        self.weight, self.prefixes = weight, tuple(prefixes)

    def _loss(self, x: Float[Tensor, "n d"]) -> tuple[Tensor, dict[str, float | Tensor]]:
        loss, numbers = super()._loss(x)
        f = self.featurizer
        z, atoms = f.codes_dense(x, training=True).squeeze(-1), f.dictionary.weight
        if self.weight:
            extra = self.weight * coherence(z, atoms)
            loss, numbers = loss + extra, {**numbers, "coherence": extra.detach()}
        for p in self.prefixes:
            loss = loss + (x - z[:, :p] @ atoms[:p] - f.out_bias).square().sum(1).mean()
        return loss, numbers
