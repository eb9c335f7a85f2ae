"""The hull condition against an LP, and its certificates carried out as edits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimality.twins import check_witness, edited_loss, feasible, latents_of, row_weights

from monoseme.optimality.columns import columns
from monoseme.optimality.hull import Hull

KINDS = ("random", "hierarchy", "dense", "overcomplete", "exclusive", "duplicate", "tiny")


def draw(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng([seed, KINDS.index(kind)])
    d, k, n = int(r.integers(3, 8)), int(r.integers(2, 7)), int(r.integers(12, 60))
    if kind == "overcomplete":
        d, k = 2, 5
    if kind == "tiny":
        n = int(r.integers(2, 6))
    w = r.standard_normal((k, d)) + (0.8 * np.eye(k, d) if kind != "random" else 0)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    on = r.random((n, k)) < (0.8 if kind == "dense" else 0.4)
    if kind == "exclusive":
        on = np.eye(k, dtype=bool)[r.integers(0, k, n)]
    if kind == "hierarchy":
        on[:, 1] &= on[:, 0]
    if kind == "duplicate":
        w[1] = w[0]
    z = on * (0.2 + r.exponential(1.0, (n, k)))
    return w, z


@pytest.mark.parametrize("learned_bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_the_linear_programs_and_certificates_are_kept(kind: str, learned_bias: bool) -> None:
    decided = outside = tilted = 0
    for seed in range(45):
        w, z = draw(kind, seed)
        r = np.random.default_rng(seed)
        bias = r.standard_normal(w.shape[1])
        x = z @ w + bias + 0.3 * r.standard_normal((len(z), w.shape[1]))
        latents = latents_of(w, z, bias, learned_bias)
        hull = Hull(latents, columns(latents))
        for j in np.flatnonzero(z.mean(0) > 0)[:3].tolist():
            weights, direction = hull.decide(j)
            tol = hull.settings.tolerance * np.linalg.norm(hull.target(j)) + 1e-12
            inside = weights is not None and weights.distance <= tol
            assert not (inside and direction is not None)
            if direction is None and not inside:
                continue
            decided += 1
            assert feasible(w, z, j, learned_bias) == inside, (kind, seed, j)
            if direction is None:
                assert weights is not None
                if weights.tilt is None:
                    a = row_weights(z, j, "rows", weights.rows, weights.weight, weights.even)
                else:
                    tilted += 1
                    a = row_weights(z, j, "tilt", np.arange(len(w)), weights.tilt, weights.even)
                index = np.flatnonzero(a)
                assert check_witness(w, z, j, "rows", index, a[index], 0.0, learned_bias, tol)
                continue
            outside += 1
            for shown in (direction, hull.sparsest(j, direction)):
                index, beta = shown.index, np.zeros(len(w))
                beta[index] = shown.weight
                assert check_witness(w, z, j, "beta", index, shown.weight, shown.offset, learned_bias, tol)
                assert weights is None or shown.bound <= weights.distance * (1 + 1e-9)
                for lam in (0.01, 1.0):
                    for share in (1.0, 0.4):
                        e = share * shown.step
                        before, after = edited_loss(x, w, z, bias, lam, j, beta, shown.offset, e)
                        least = lam * (2 * e * shown.gamma - e * e * shown.size)
                        assert before - after >= least * (1 - 1e-9) - 1e-12, (kind, seed, j)
    assert decided >= 80
    assert outside > 0 or kind == "exclusive"
