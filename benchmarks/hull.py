"""The hull test on 512 features x 20,000 rows that are not at an optimum, and 20 drawn features against HiGHS.

    python -m benchmarks.hull [FEATURES]

Planted: ten strict pairs, codes with 5 % noise, about 22 active a row. Every witness is checked again by a function of
the tests that shares nothing with the package.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from tests.optimality.twins import check_witness, feasible, row_weights

import monoseme as ms
from monoseme.optimality import CertifySettings

K, N, D, PAIRS, L0 = 512, 20_000, 256, 10, 22


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, atoms, codes."""
    r = np.random.default_rng(seed)
    w = r.standard_normal((K, D))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((N, K)) < L0 / K) * (0.5 + r.exponential(1.0, (N, K)))
    for p in range(PAIRS):
        on = z[:, 2 * p + 1] > 0
        z[on, 2 * p] = np.where(z[on, 2 * p] > 0, z[on, 2 * p], 0.5 + r.exponential(1.0, int(on.sum())))
    z = np.maximum(z * (1 + 0.05 * r.standard_normal(z.shape)), 0)
    return z @ w + 0.02 * r.standard_normal((N, D)), w, z


def main() -> None:
    """Time the certificates, check every witness, and ask the linear program."""
    x, w, z = planted()
    ms.certify(x[:2000], w, z[:2000], lam=0.05)  # compile
    for name, settings in (
        ("verdicts and bounds", CertifySettings(slack=False, splits=False, wide=False)),
        ("everything", CertifySettings()),
    ):
        start = time.perf_counter()
        found = ms.certify(x, w, z, lam=0.05, settings=settings)
        took = time.perf_counter() - start
        print(f"{name}: {took:.1f} s, decided {1 - found.count('unknown') / K:.1%}", flush=True)
    unstable = [f.feature for f in found.features if f.verdict == "unstable"]
    print(f"unstable: {unstable}; planted: {list(range(0, 2 * PAIRS, 2))}")
    good = 0
    for f in found.features:
        assert f.witness is not None
        if f.witness.kind == "beta":
            good += check_witness(w, z, f.feature, "beta", f.witness.index, f.witness.weight, f.witness.offset, True, 0)
            continue
        shown = f.witness
        a = row_weights(z, f.feature, shown.kind, shown.index, shown.weight, shown.offset)
        index = np.flatnonzero(a)
        good += check_witness(w, z, f.feature, "rows", index, a[index], 0.0, True, f.violation_upper + 1e-9)
    print(f"witnesses that hold: {good} of {K}", flush=True)
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    drawn = [*unstable[:5], *np.random.default_rng(1).permutation(np.arange(2 * PAIRS, K))[: many - 5].tolist()]
    agree, start = 0, time.perf_counter()
    for j in drawn:
        agree += feasible(w, z, j) == (found.features[j].verdict == "stable")
        print(f"HiGHS agrees on {agree} of {drawn.index(j) + 1} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
