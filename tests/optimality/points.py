"""Points that fulfil K1-K3 to rounding, for tests: quasi-Newton on atoms and bias, codes solved anew at every step."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from monoseme.optimality.lasso import resolve


def dense(codes, k: int) -> np.ndarray:
    z = np.zeros((len(codes.indptr) - 1, k))
    z[np.repeat(np.arange(len(z)), np.diff(codes.indptr)), codes.indices] = codes.values
    return z


def loss(x, w, z, b, lam) -> float:
    return float(np.square(x - b - z @ w).sum(1).mean() + 2 * lam * z.sum(1).mean())


def stationary(x, k, lam, seed=0, learned_bias=True, atoms=None, bias=None):
    """Atoms, codes and bias of a stationary point; the largest violation of K2 and K3, in units of λ."""
    n, d = x.shape
    r = np.random.default_rng(seed)
    start = r.standard_normal((k, d)) if atoms is None else atoms
    origin = np.zeros(d) if bias is None else bias

    def unpack(free):
        v = free[: k * d].reshape(k, d)
        norm = np.linalg.norm(v, axis=1, keepdims=True)
        return v / norm, norm, free[k * d :] if learned_bias else origin

    def value(free):
        w, norm, b = unpack(free)
        z = dense(resolve(x, w, b, lam, tol=1e-15), k)
        res = x - b - z @ w
        slope = -2 * z.T @ res / n
        slope = (slope - (slope * w).sum(1, keepdims=True) * w) / norm
        return loss(x, w, z, b, lam), np.concatenate([slope.ravel(), -2 * res.mean(0) if learned_bias else []])

    bad = np.inf
    free, tight = np.concatenate([start.ravel(), x.mean(0) if learned_bias else []]), {"ftol": 0, "gtol": 1e-9}
    for _ in range(3):  # the curvature jumps where a code starts or stops: begin again with a clean memory
        found = minimize(value, free, jac=True, method="L-BFGS-B", options=tight | {"maxiter": 300, "maxfun": 400})
        free = found.x
        if (bad := float(np.abs(found.jac).max() / lam)) < 1e-7:
            break
    w, _, b = unpack(free)
    return w, dense(resolve(x, w, b, lam, tol=1e-15), k), np.array(b), bad


def blobs(seed: int, n: int = 60, d: int = 5, k: int = 4, density: float = 0.4) -> np.ndarray:
    """Rows of a sparse world with noise."""
    r = np.random.default_rng([seed, 9])
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < density) * (0.5 + r.exponential(1.0, (n, k)))
    return z @ w + 0.1 * r.standard_normal((n, d)) + r.standard_normal(d)
