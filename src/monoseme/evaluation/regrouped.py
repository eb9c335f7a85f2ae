"""The shuffled-blocks control: the same directions, dealt anew to blocks.

What a block of a fitted featurizer has and a block of its own directions drawn at random has not, is what the fit put
together. The reconstruction, the residual and the active directions stay as they were; what changes is who belongs
together. Scalar latents (b = 1) can be dealt to blocks as well.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.seeds import generator

__all__ = ["Regrouped", "shuffled_blocks"]


class Regrouped:
    """A featurizer with its G·b directions in other blocks; it `Featurizes`, and decodes to the same rows.

    A new block is active where any of its directions was; its other coordinates are 0 there. So L0 in blocks rises,
    and L0 in directions that are not 0 stays.

    Parameters
    ----------
    featurizer
        Any that encodes and decodes.
    order
        (G·b,) which old direction (block · b + coordinate) is which new one.
    block_size
        Of the new blocks.
    """

    def __init__(self, featurizer: Featurizes, order: Int64[Tensor, " Gb"], block_size: int) -> None:
        atoms = featurizer.atoms
        total = atoms.shape[0] * atoms.shape[1]
        if block_size < 1 or total % block_size:
            fix = "Choose a divisor of the number of directions."
            raise refuse("block_size", f"divide the {total} directions", block_size, fix)
        if len(order) != total or int(order.min()) < 0 or len(order.unique()) != total or int(order.max()) >= total:
            fix = "torch.randperm makes one."
            raise refuse("order", f"be a permutation of 0..{total - 1}", f"{len(order)} numbers", fix)
        self.featurizer, self.block_size, self.order = featurizer, block_size, order.cpu()
        self.new_of_old = torch.empty_like(self.order)
        self.new_of_old[self.order] = torch.arange(total)

    @property
    def atoms(self) -> Float[Tensor, "G b d"]:
        """The same directions, regrouped."""
        atoms = self.featurizer.atoms
        return atoms.flatten(0, 1)[self.order.to(atoms.device)].unflatten(0, (-1, self.block_size))

    @property
    def bias(self) -> Float[Tensor, " d"]:
        """As it was."""
        return self.featurizer.bias

    def encode(self, x: Float[Tensor, "*batch d"], refine: Refine = None) -> Code:
        """Codes in the new blocks."""
        code = self.featurizer.encode(x, refine=refine)
        b = code.block_size
        old = (code.indices.long()[:, None] * b + torch.arange(b, device=code.indices.device)).flatten()
        return self._grouped(
            code, code.rows.repeat_interleave(b), self.new_of_old.to(old.device)[old], code.values.flatten()
        )

    def _grouped(self, code: Code, rows: Tensor, column: Tensor, values: Tensor) -> Code:
        live = values != 0
        rows, column, values = rows[live], column[live], values[live]
        n_blocks = len(self.order) // self.block_size
        # entries of the new code, sorted by row and then by block
        entries, at = torch.unique(rows * n_blocks + column // self.block_size, return_inverse=True)
        filled = values.new_zeros(len(entries), self.block_size)
        filled[at, column % self.block_size] = values
        indptr = torch.zeros_like(code.indptr)
        torch.cumsum(torch.bincount(entries // n_blocks, minlength=code.n_rows), 0, out=indptr[1:])
        return Code(indptr, (entries % n_blocks).to(code.indices.dtype), filled, n_blocks, code.batch_shape)

    def decode(self, code: Code) -> Float[Tensor, "*batch d"]:
        """Rows in raw units; those of the old code for codes made here."""
        atoms = self.atoms
        dense = code.to(str(atoms.device)).to_dense().to(atoms.dtype)
        return torch.einsum("...gb,gbd->...d", dense, atoms) + self.bias


def shuffled_blocks(featurizer: Featurizes, block_size: int | None = None, seed: int = 0) -> Regrouped:
    """Deal a featurizer's directions at random to blocks of the same size, or of another.

    Parameters
    ----------
    featurizer
        Any that encodes and decodes.
    block_size
        Of the new blocks; it must divide the number of directions. The featurizer's own by default.
    seed
        Of the deal.

    Examples
    --------
    >>> import monoseme as ms
    >>> shuffled_blocks(ms.featurizers.BlockTopK(8, 6, 2, k=2), block_size=3).atoms.shape
    torch.Size([4, 3, 8])
    """
    G, b, _ = featurizer.atoms.shape
    order = torch.randperm(G * b, generator=generator(seed, "shuffled blocks"))
    return Regrouped(featurizer, order, b if block_size is None else block_size)
