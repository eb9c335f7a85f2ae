"""Exact and independent twins of the optimality room: an LP, an edit carried out in full, a witness checked by hand."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from monoseme.optimality.latents import Latents


def latents_of(atoms: np.ndarray, z: np.ndarray, bias: np.ndarray | None = None, learned_bias: bool = True) -> Latents:
    """Dense nonnegative codes of unit atoms as `Latents`."""
    code, k = sp.csr_array(z), len(atoms)
    bias = np.zeros(atoms.shape[1]) if bias is None else bias
    return Latents(
        atoms,
        bias,
        code.indptr.astype(np.int64),
        code.indices.astype(np.int32),
        code.data.astype(np.float64),
        np.arange(k),
        np.ones(k, np.int64),
        learned_bias,
    )


def feasible(atoms: np.ndarray, z: np.ndarray, j: int, learned_bias: bool = True) -> bool:
    """Whether condition (H) of feature j has weights: HiGHS."""
    off, m = z[:, j] == 0, z.mean(0)
    k = (np.arange(len(atoms)) != j) & (m > 0)
    a = (z[off][:, k] / m[k]).T
    b = 1 - atoms[k] @ atoms[j]
    if learned_bias:
        a, b = np.vstack([a, np.ones(off.sum())]), np.append(b, 1.0)
    if not off.any():
        return bool(np.abs(b).max(initial=0.0) < 1e-12)
    return linprog(np.zeros(off.sum()), A_eq=a, b_eq=b, bounds=(0, None), method="highs").status == 0


def edited_loss(x, atoms, z, bias, lam, j, beta, offset, e):
    """Loss before and after the reconstruction-preserving edit of feature j, carried out in full."""
    w, code = atoms + e * np.outer(beta, atoms[j]), z.copy()
    w[j] = atoms[j]
    norm = np.linalg.norm(w, axis=1)
    code *= norm
    code[:, j] = z[:, j] - e * (z @ beta + offset)
    moved = bias + e * offset * atoms[j]
    assert code.min() >= -1e-9, "a code became negative"
    np.testing.assert_allclose(code @ (w / norm[:, None]) + moved, z @ atoms + bias, atol=1e-9)
    loss = [
        np.square(x - code_ @ w_ - b_).sum(1).mean() + 2 * lam * code_.sum(1).mean()
        for code_, w_, b_ in ((z, atoms, bias), (code, w / norm[:, None], moved))
    ]
    return loss[0], loss[1]


def row_weights(z, j, kind, index, weight, offset):
    """Weights on all rows of a stable feature, written out."""
    off = np.flatnonzero(z[:, j] == 0)
    a = np.zeros(len(z))
    if kind == "tilt":
        a[off] = np.exp(z[off][:, index] @ weight + offset)
    else:
        a[off] = offset / max(len(off), 1)
        a[index] += weight
    return a


def check_witness(atoms, z, j, kind, index, weight, offset, learned_bias, tol):
    """Whether a witness proves its verdict: fifteen lines of float64, sharing nothing with the package."""
    m, off = z.mean(0), z[:, j] == 0
    k = (np.arange(len(m)) != j) & (m > 0)
    goal = (1 - atoms @ atoms[j])[k]
    if kind == "rows":
        a = np.zeros(len(z))
        a[index] = weight
        assert (a >= 0).all()
        assert not a[~off].any(), "weights on rows where the feature is on"
        assert not learned_bias or abs(a.sum() - 1) < 1e-9, "weights of another sum than one"
        gap = np.sqrt(m[k]) * (goal - (a @ z)[k] / m[k])
        return bool(np.linalg.norm(gap) <= tol)
    beta = np.zeros(len(m))
    beta[index] = weight
    assert beta[j] == 0
    assert learned_bias or offset == 0
    valid = bool((z[off] @ beta + offset <= 1e-9).all())
    return valid and float(beta[k] @ (m[k] * goal) + offset) > 0
