"""Refining a code at inference: the one-pass encoder proposes, least squares or pursuit disposes.

A single amortised pass suffers from interference between active blocks even when every atom is right (see
docs/recovery). Use at inference only: pursuit *inside* training reconstructs well but does not find the parts.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.cones import Sign
from monoseme.core.support import Support

__all__ = ["least_squares", "pursue", "solve_rows"]

SWEEPS, TOL = 50, 1e-10  # of the nonnegative solver: most sweeps, by fours, and the KKT residual relative to the row


def least_squares(
    x: Float[Tensor, "n d"], support: Support, atoms: Float[Tensor, "G b d"], sign: Sign
) -> Float[Tensor, "nnz b"]:
    """Codes that reconstruct each row best on its support: argmin ‖x − Σ z_g D_g‖ over the cone.

    Rows with equally many active blocks are solved together.
    """
    sizes = support.indptr.diff()
    values = x.new_zeros(len(support.indices), atoms.shape[1])
    for size in sizes.unique().tolist():
        if size == 0:
            continue
        rows = (sizes == size).nonzero().squeeze(1)
        entries = support.indptr[rows].unsqueeze(1) + torch.arange(size, device=x.device)
        values[entries] = solve_rows(x[rows], support.indices[entries].long(), atoms, sign)
    return values


def solve_rows(
    x: Float[Tensor, "n d"], blocks: Int[Tensor, "n s"], atoms: Float[Tensor, "G b d"], sign: Sign
) -> Float[Tensor, "n s b"]:
    """Joint least squares of every row on its own s blocks, by normal equations in float64."""
    n, s = blocks.shape
    b, d = atoms.shape[1:]
    design = atoms[blocks].reshape(n, s * b, d).to(torch.float64)
    gram = design @ design.mT
    target = torch.einsum("npd,nd->np", design, x.to(torch.float64))
    z = _nonneg(gram, target, design, x.to(torch.float64)) if sign == "nonneg" else _free(gram, target)
    return z.reshape(n, s, b).to(x.dtype)


def _free(gram: Float[Tensor, "n p p"], target: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
    """Minimum-norm solution; Cholesky where the Gram matrix allows it, pseudo-inverse where atoms coincide."""
    factor, info = torch.linalg.cholesky_ex(gram)
    diagonal = torch.diagonal(factor, dim1=-2, dim2=-1)
    good = (info == 0) & (diagonal.amin(-1) > 1e-6 * diagonal.amax(-1))
    z = torch.empty_like(target)
    z[good] = torch.cholesky_solve(target[good].unsqueeze(-1), factor[good]).squeeze(-1)
    if not bool(good.all()):
        inverse = torch.linalg.pinv(gram[~good], hermitian=True, rtol=1e-10)
        z[~good] = torch.einsum("npq,nq->np", inverse, target[~good])
    return z


def _nonneg(
    gram: Float[Tensor, "n p p"], target: Float[Tensor, "n p"], design: Float[Tensor, "n p d"], x: Float[Tensor, "n d"]
) -> Float[Tensor, "n p"]:
    """Nonnegative least squares, until the KKT conditions of every row hold to `TOL` of its own ‖target‖∞.

    By cyclic coordinate descent on all rows that are not there yet, so that no row depends on its neighbours; those
    whose atoms are so alike that it creeps, by an active set.
    """
    z = torch.zeros_like(target)
    limit = TOL * target.abs().amax(1)
    live = torch.arange(len(target), device=target.device)
    for _ in range(SWEEPS):
        z[live], violation = _sweep(gram[live], target[live], z[live])
        live = live[violation > limit[live]]
        if not len(live):
            break
    for row in live.tolist():
        z[row] = torch.from_numpy(_active_set(design[row].mT.cpu().numpy(), x[row].cpu().numpy()))
    return z


def _sweep(
    gram: Float[Tensor, "n p p"], target: Float[Tensor, "n p"], z: Float[Tensor, "n p"], times: int = 4
) -> tuple[Float[Tensor, "n p"], Float[Tensor, " n"]]:
    """`times` passes of coordinate descent over z ≥ 0, and the largest violation of the KKT conditions after them."""
    diagonal = torch.diagonal(gram, dim1=-2, dim2=-1)
    step = torch.where(diagonal > 0, 1 / diagonal.clamp_min(1e-300), torch.zeros_like(diagonal))
    slack = target - torch.einsum("npq,nq->np", gram, z)  # minus the gradient
    for _ in range(times):
        for j in range(target.shape[1]):
            new = (z[:, j] + slack[:, j] * step[:, j]).clamp_min(0)
            slack -= (new - z[:, j]).unsqueeze(1) * gram[:, :, j]
            z[:, j] = new
    return z, torch.where(z > 0, slack.abs(), slack.clamp_min(0)).amax(1)


def _active_set(design: np.ndarray, x: np.ndarray) -> np.ndarray:
    from scipy.optimize import nnls  # Lawson & Hanson 1974

    return nnls(design, x, maxiter=100 * design.shape[1])[0]


def pursue(
    x: Float[Tensor, "n d"], sizes: Int[Tensor, " n"], atoms: Float[Tensor, "G b d"], sign: Sign
) -> tuple[Support, Float[Tensor, "nnz b"]]:
    """Block orthogonal matching pursuit.

    `sizes[i]` times: take the block that explains most of the residual, then refit all chosen blocks jointly.
    What a block explains is the squared norm of the residual's projection on its span, or on the cone that its atoms
    generate, so the scale of the atoms does not matter. Atoms may be zero, alike, or more than there are dimensions.
    """
    n, (n_blocks, b, _) = len(x), atoms.shape
    most = min(int(sizes.max()) if n else 0, n_blocks)
    basis = _spans(atoms) if sign == "free" else atoms
    chosen = torch.zeros(n, most, dtype=torch.int64, device=x.device)
    taken = torch.zeros(n, n_blocks, dtype=torch.bool, device=x.device)
    z = x.new_zeros(n, most, b)
    for step in range(most):
        live = (sizes > step).nonzero().squeeze(1)
        residual = x[live] - torch.einsum("nsb,nsbd->nd", z[live, :step], atoms[chosen[live, :step]])
        along = (residual @ basis.reshape(n_blocks * b, -1).T).reshape(len(live), n_blocks, b)
        gain = along.square().sum(-1) if sign == "free" else _on_cones(along, atoms)
        best = gain.masked_fill(taken[live], -1.0).argmax(1)
        chosen[live, step] = best
        taken[live, best] = True
        z[live, : step + 1] = solve_rows(x[live], chosen[live, : step + 1], atoms, sign)
    active = (torch.arange(most, device=x.device) < sizes.unsqueeze(1)) & (z != 0).any(-1)
    return _compress(chosen, z, active, n_blocks)


def _spans(atoms: Float[Tensor, "G b d"]) -> Float[Tensor, "G b d"]:
    """Orthonormal rows that span each block, and zero rows where its rank is below b."""
    wide = atoms.to(torch.float64)
    values, vectors = torch.linalg.eigh(wide @ wide.mT)
    real = values > 1e-10 * values[:, -1:].clamp_min(1e-300)
    root = torch.where(real, values, torch.ones_like(values)).rsqrt() * real
    return (root.unsqueeze(-1) * (vectors.mT @ wide)).to(atoms.dtype)


def _on_cones(along: Float[Tensor, "n G b"], atoms: Float[Tensor, "G b d"], sweeps: int = 20) -> Float[Tensor, "n G"]:
    """Squares each block explains by itself with z ≥ 0, max 2 z·a − z D Dᵀ zᵀ with a = D r; exact at once for b = 1."""
    b = along.shape[-1]
    gram = atoms @ atoms.mT
    z, slack = torch.zeros_like(along), along.clone()
    for _ in range(sweeps if b > 1 else 1):
        for j in range(b):
            size = gram[:, j, j]
            new = (z[..., j] + slack[..., j] / torch.where(size > 0, size, torch.ones_like(size))).clamp_min(0)
            slack -= (new - z[..., j]).unsqueeze(-1) * gram[:, j]
            z[..., j] = new
    return (z * (along + slack)).sum(-1)


def _compress(
    chosen: Int[Tensor, "n s"], z: Float[Tensor, "n s b"], active: Tensor, n_blocks: int
) -> tuple[Support, Float[Tensor, "nnz b"]]:
    """Padded choices to a support, ascending inside a row."""
    order = chosen.masked_fill(~active, n_blocks).argsort(dim=1, stable=True)
    chosen, active = chosen.gather(1, order), active.gather(1, order)
    z = z.gather(1, order.unsqueeze(-1).expand_as(z))
    indptr = torch.zeros(len(chosen) + 1, dtype=torch.int64, device=chosen.device)
    torch.cumsum(active.sum(1), 0, out=indptr[1:])
    return Support(indptr, chosen[active].to(torch.int32), n_blocks), z[active]
