"""A featurizer with known atoms, for the tests of this room: small, dense, obviously right."""

import pytest
import torch

from monoseme.core.code import Code


class Known:
    """Tied one-pass encoder γ x Dᵀ and top-k blocks, with exact least squares or block matching pursuit on request."""

    def __init__(self, atoms, k, gamma=1.0, bias=None, sign="free"):
        self.atoms, self.k, self.gamma, self.sign = atoms, k, gamma, sign
        self.bias = atoms.new_zeros(atoms.shape[2]) if bias is None else bias

    def _pre(self, x):
        pre = self.gamma * torch.einsum("nd,gbd->ngb", x, self.atoms)
        return pre.relu() if self.sign == "nonneg" else pre

    def _support(self, x):
        norms = self._pre(x).square().sum(2)
        mask = torch.zeros(norms.shape, dtype=torch.bool)
        return mask.scatter_(1, norms.topk(self.k).indices, True) & (norms > 0)

    def solve(self, x, mask):
        """Least squares of every row on the atoms of its own active blocks (padded atoms, all zero, get 0)."""
        n, (G, b, d) = len(x), self.atoms.shape
        picked = mask.double().topk(int(mask.sum(1).max())).indices
        inside = mask.gather(1, picked)[:, :, None, None]
        frames = (self.atoms[picked] * inside).reshape(n, -1, d)
        gram = frames @ frames.mT
        z = torch.linalg.pinv(gram, hermitian=True) @ (frames @ x[:, :, None])
        dense = x.new_zeros(n, G, b)
        dense[torch.arange(n)[:, None], picked] = z.reshape(n, -1, b)
        return dense * mask[:, :, None]

    def encode(self, x, refine=None):
        flat = x.reshape(-1, x.shape[-1]) - self.bias
        mask = self._support(flat)
        if refine is None:
            return Code.from_dense(self._pre(flat) * mask[:, :, None], mask)
        if refine == "omp":
            mask = torch.zeros_like(mask)
            residual = flat
            for _ in range(self.k):
                norms = self._pre(residual).square().sum(2).masked_fill(mask, -1.0)
                mask[torch.arange(len(flat)), norms.argmax(1)] = True
                residual = flat - torch.einsum("ngb,gbd->nd", self.solve(flat, mask), self.atoms)
        return Code.from_dense(self.solve(flat, mask), mask)

    def decode(self, code):
        return torch.einsum("ngb,gbd->nd", code.to_dense(), self.atoms) + self.bias


def true_frames(world, dtype=torch.float64):
    """The world's spans as atoms, zero-padded to the widest."""
    b = max(factor.b for factor in world.factors)
    atoms = torch.zeros(len(world.factors), b, world.d_in, dtype=dtype)
    for i, factor in enumerate(world.factors):
        atoms[i, : factor.b] = torch.from_numpy(factor.basis)
    return atoms


@pytest.fixture(scope="session")
def known():
    return Known


@pytest.fixture(scope="session")
def frames():
    return true_frames
