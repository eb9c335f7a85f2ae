"""Top-k by a weighted norm: what other libraries' TopK means when their atoms are not of norm one.

Rescaled to unit atoms, a code is the other library's times the norm of its atom; the k largest must still be the other
library's k largest. `interop` makes these, with weight 1 / norm.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.cones import Sign
from monoseme.core.kernels import fast
from monoseme.core.support import Support
from monoseme.featurizers.dictionaries import UnitNorm
from monoseme.featurizers.encoders import LinearEncoder
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.gates import Gate
from monoseme.featurizers.units import Norm, Units
from monoseme.featurizers.zoo import species

__all__ = ["RankedTopK"]


class Ranked(Gate):
    """The k blocks of largest w_g ‖u_g‖ on every row, w_g > 0 kept as they came; all ones is `TopK`."""

    rank: Tensor

    def __init__(self, n_blocks: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("rank", torch.ones(n_blocks))

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Π_k of the weighted pre-codes, per row."""
        return fast.select_topk(pre * self.rank.to(pre.dtype).repeat_interleave(block_size), block_size, self.k, sign)


@species
def RankedTopK(
    d_in: int,
    n_blocks: int,
    *,
    k: int,
    sign: Sign = "nonneg",
    learn_bias: bool = True,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Linear encoder × R₊ or R × top-k by weighted norm × unit-norm atoms; the weights are all one until loaded."""
    encoder, dictionary = LinearEncoder(d_in, n_blocks, 1), UnitNorm(d_in, n_blocks, 1, seed, "sphere")
    return Featurizer(encoder, sign, Ranked(n_blocks, k), dictionary, Units(d_in, norm), learn_bias, {})
