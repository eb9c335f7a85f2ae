"""Dictionaries: the atoms and the constraint they obey. `constrain` runs after every optimiser step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.seeds import generator

__all__ = ["Constraint", "Dictionary", "Frames", "UnitNorm", "orthonormalise"]

Constraint = Literal["ball", "sphere", "atoms"]


class Dictionary(nn.Module, ABC):
    """G blocks of b atoms in R^d, kept as a (G·b, d) matrix."""

    def __init__(self, d_in: int, n_blocks: int, block_size: int, seed: int) -> None:
        super().__init__()
        stream = generator(seed, "atoms")
        self.weight = nn.Parameter(torch.randn(n_blocks * block_size, d_in, generator=stream) / d_in**0.5)
        self.shape = (n_blocks, block_size)

    @property
    def atoms(self) -> Float[Tensor, "G b d"]:
        """The atoms, in training units, with gradients."""
        return self.weight.reshape(*self.shape, -1)

    def keep_tangent(self) -> None:
        """Take from the gradient what the constraint would undo; nothing, unless a dictionary knows better."""

    @abstractmethod
    def constrain(self, step: int) -> None:
        """Return the atoms to the constraint after optimiser step `step` (counted from 0)."""

    @abstractmethod
    def settle(self) -> None:
        """Make the constraint hold exactly (before training, after it, and before saving)."""


class UnitNorm(Dictionary):
    """Frobenius norm of every block at most one ("ball") or exactly one ("sphere"), or every atom's one ("atoms").

    The paper's App. D asks for the ball, its public code renormalises to the sphere, others to unit atoms; for b = 1
    the sphere is the unit-norm atom of ordinary SAEs. An L1 objective needs the sphere or the ball alike: the penalty
    pushes codes down, hence atoms out to the boundary.
    """

    def __init__(self, d_in: int, n_blocks: int, block_size: int, seed: int, constraint: Constraint = "ball") -> None:
        super().__init__(d_in, n_blocks, block_size, seed)
        self.constraint = constraint
        self._scale_to_one(grow=True)

    def _units(self, of: Tensor) -> Tensor:
        """The rows whose norms are bound: atoms, or whole blocks."""
        return of if self.constraint == "atoms" else of.view(self.shape[0], -1)

    @torch.no_grad()
    def keep_tangent(self) -> None:
        """On the sphere, take from the gradient what only changes lengths.

        Adam divides coordinate by coordinate. The part of the gradient along a unit atom (2λ E[z] for an L1 objective)
        never vanishes, and divided so it turns the atom: training would end away from a stationary point.
        """
        if self.constraint == "ball" or self.weight.grad is None:
            return
        rows, slopes = self._units(self.weight.data), self._units(self.weight.grad)
        slopes.sub_((slopes * rows).sum(1, keepdim=True) * rows)

    @torch.no_grad()
    def _scale_to_one(self, *, grow: bool) -> None:
        blocks = self._units(self.weight.data)
        norms = blocks.norm(dim=1, keepdim=True)
        if not grow:
            norms = norms.clamp_min(1.0)
        # an all-zero block stays zero: dividing by one is the only finite choice
        blocks.div_(torch.where(norms > 0, norms, torch.ones_like(norms)))

    def constrain(self, step: int) -> None:
        """Project on the ball, or scale to the sphere."""
        self._scale_to_one(grow=self.constraint != "ball")

    def settle(self) -> None:
        """The same."""
        self.constrain(0)


class Frames(Dictionary):
    """Orthonormal rows inside every block: D_g D_gᵀ = I_b, a point on the Grassmannian (App. D).

    The raw parameter is used in the forward pass, without any factorisation; every `every` steps it is returned to the
    frames. The paper says that every 20 steps suffices.
    """

    def __init__(
        self,
        d_in: int,
        n_blocks: int,
        block_size: int,
        seed: int,
        every: int = 20,
        retraction: Literal["polar", "cholesky"] = "polar",
    ) -> None:
        super().__init__(d_in, n_blocks, block_size, seed)
        self.every = every
        self.retraction: Literal["polar", "cholesky"] = retraction
        self.settle()

    def constrain(self, step: int) -> None:
        """Retract after every `every`-th step."""
        if (step + 1) % self.every == 0:
            self.settle()

    @torch.no_grad()
    def settle(self) -> None:
        """Retract now."""
        frames = orthonormalise(self.atoms.detach(), self.retraction)
        self.weight.copy_(frames.reshape(self.weight.shape))


def orthonormalise(
    blocks: Float[Tensor, "G b d"], retraction: Literal["polar", "cholesky"] = "polar"
) -> Float[Tensor, "G b d"]:
    """Orthonormal frames near the given blocks, from b × b Gram matrices in float64.

    ``"polar"`` is the nearest frame in Frobenius norm, (D Dᵀ)^(-1/2) D, and treats all rows alike; ``"cholesky"`` is
    Gram–Schmidt from the first row on, and cheaper. Blocks whose Gram matrix is too ill-conditioned for either
    (relative eigenvalue below 1e-10) go through QR of the block itself, which is slow but never fails.
    """
    wide = blocks.to(torch.float64)
    values, vectors = torch.linalg.eigh(wide @ wide.mT)
    good = values[:, 0] > 1e-10 * values[:, -1].clamp_min(1e-300)
    out = torch.empty_like(wide)
    if retraction == "polar":
        root = vectors[good] @ (values[good].rsqrt().unsqueeze(-1) * vectors[good].mT)
        out[good] = root @ wide[good]
    else:
        lower = torch.linalg.cholesky(wide[good] @ wide[good].mT)
        out[good] = torch.linalg.solve_triangular(lower, wide[good], upper=False)
    if not bool(good.all()):
        q, r = torch.linalg.qr(wide[~good].mT)
        signs = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0)
        out[~good] = (q * signs.unsqueeze(-2)).mT
    return out.to(blocks.dtype)
