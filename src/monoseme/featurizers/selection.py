"""Selections that look further than the k largest norms: by false-discovery rate, and by tournament.

Both are for orthonormal frames: their null law and their overlaps are those of subspaces.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from monoseme.core.cones import Sign, block_norms
from monoseme.core.kernels import fast
from monoseme.core.support import Support
from monoseme.featurizers.gates import Gate

__all__ = ["FalseDiscovery", "Tournament", "overlaps", "rejected"]


class FalseDiscovery(Gate):
    """As many blocks as stand out from noise on this row, by Benjamini and Hochberg (1995) on a χ_b null.

    The norm of a block that is not there is σ times a χ variable with b degrees of freedom, σ the row's own noise,
    which is read off the `quantile` of its norms. Of the G hypotheses "block g is not there", those rejected are
    active: a share of at most `alpha` of the active blocks is expected to be false, if the null holds. Training selects
    the k largest, because a p-value means nothing before the frames do.
    """

    def __init__(self, k: int, alpha: float, quantile: float) -> None:
        super().__init__()
        self.k, self.alpha, self.quantile = k, alpha, quantile

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Π_k in training; the rejected hypotheses otherwise."""
        if training:
            return fast.select_topk(pre, block_size, self.k, sign)
        norms = block_norms(pre.unflatten(1, (-1, block_size)), sign)
        return Support.from_mask(rejected(norms, block_size, self.alpha, self.quantile))


def rejected(norms: Float[Tensor, "n G"], b: int, alpha: float, quantile: float) -> Bool[Tensor, "n G"]:
    """Mask of the blocks whose χ_b null is rejected at false-discovery rate `alpha`, row by row."""
    if not len(norms):
        return norms > 0
    wide = norms.double()
    sigma = wide.quantile(quantile, dim=1, keepdim=True) / _chi_quantile(b, quantile)
    # P(χ_b > t) = Q(b/2, t²/2); a row without noise keeps every block that is not zero
    t = wide / sigma.clamp_min(1e-300)
    p = torch.special.gammaincc(torch.full_like(t, b / 2), 0.5 * t.square())
    ordered = p.sort(dim=1).values
    n_blocks = norms.shape[1]
    below = ordered <= alpha * torch.arange(1, n_blocks + 1, device=p.device, dtype=p.dtype) / n_blocks
    count = (below * torch.arange(1, n_blocks + 1, device=p.device)).amax(1, keepdim=True)
    cut = torch.where(count > 0, ordered.gather(1, (count - 1).clamp_min(0)), torch.full_like(ordered[:, :1], -1.0))
    return (p <= cut) & (norms > 0)


def _chi_quantile(b: int, q: float) -> float:
    from scipy.stats import chi

    return float(chi.ppf(q, b))


class Tournament(Gate):
    """The k blocks of largest norm of which no two overlap: on every row, rivals duel and the larger wins.

    Rivals are pairs of blocks whose subspaces share more than `overlap`, ‖Q_g Q_hᵀ‖²_F / b. A plain top-k spends
    several of its k choices on one concept when the dictionary holds copies of it. Who rivals whom is worked out again
    every `every` steps, as the frames are. After Jerpelea & Ananthram (arXiv 2608.27515), of which only the abstract
    was read: the rule here is ours.
    """

    rivals: Tensor
    CANDIDATES = 4  # candidates looked at, as a multiple of k

    def __init__(self, n_blocks: int, k: int, overlap: float, every: int) -> None:
        super().__init__()
        self.k, self.overlap, self.every = k, overlap, every
        # saved: between two looks it is older than the atoms, and a resumed run must see the same one
        self.register_buffer("rivals", torch.zeros(n_blocks, n_blocks, dtype=torch.bool))

    @torch.no_grad()
    def refresh(self, atoms: Float[Tensor, "G b d"], step: int | None = None) -> None:
        """Work out the rivals, after every `every`-th step."""
        if step is None or (step + 1) % self.every == 0:
            self.rivals.copy_(overlaps(atoms) > self.overlap)
            self.rivals.fill_diagonal_(False)

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Walk down the norms; a block enters unless a rival is in, until k are in."""
        norms = block_norms(pre.unflatten(1, (-1, block_size)), sign)
        n, n_blocks = norms.shape
        values, order = norms.sort(dim=1, descending=True, stable=True)
        inside = torch.zeros_like(norms, dtype=torch.bool)
        winners = torch.full((n, self.k), -1, dtype=torch.int64, device=pre.device)
        room = torch.zeros(n, dtype=torch.int64, device=pre.device)
        for j in range(min(self.CANDIDATES * self.k, n_blocks)):
            candidate = order[:, j]
            beaten = (self.rivals[candidate.unsqueeze(1), winners.clamp_min(0)] & (winners >= 0)).any(1)
            enters = (values[:, j] > 0) & ~beaten & (room < self.k)
            rows = enters.nonzero().squeeze(1)
            winners[rows, room[rows]] = candidate[rows]
            inside[rows, candidate[rows]] = True
            room += enters
        return Support.from_mask(inside)


@torch.no_grad()
def overlaps(atoms: Float[Tensor, "G b d"], chunk: int = 1 << 25) -> Float[Tensor, "G G"]:
    """‖Q_g Q_hᵀ‖²_F / b of every pair of frames: 1 for the same subspace, b/d on average for random ones."""
    n_blocks, b, d = atoms.shape
    flat = atoms.reshape(n_blocks * b, d)
    out = atoms.new_empty(n_blocks, n_blocks)
    size = max(1, chunk // (n_blocks * b * b))
    for start in range(0, n_blocks, size):
        part = (atoms[start : start + size].reshape(-1, d) @ flat.T).square()
        out[start : start + size] = part.reshape(-1, b, n_blocks, b).sum((1, 3)) / b
    return out
