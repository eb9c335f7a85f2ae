"""Certificates of a fitted dictionary on some rows, tried again on rows that they were not made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from monoseme.core.stats import wilson
from monoseme.featurizers import Featurizer
from monoseme.optimality import Certification, CertifySettings
from monoseme.optimality.certification import FeatureCertificate
from monoseme.optimality.certify import certify_latents
from monoseme.optimality.hull import HullSettings
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.latents import Latents
from monoseme.optimality.reading import latents

__all__ = ["LEAK", "Certified", "certified", "coded", "confirmed", "matrix", "summary"]

LEAK, ONE_SIDED = 0.01, 1.645  # of held-out rows that may object; normal quantile of 95 %
# an undecided feature costs up to four rounds of so many steps; more decided few of them
SETTINGS = CertifySettings(about="rows", splits=False, wide=False, hull=HullSettings(iterations=300, rounds=4))


@dataclass(frozen=True, eq=False)
class Certified:
    """Verdicts on rows, the codes they are about, and the codes of other rows on the same atoms."""

    found: Certification
    codes: Latents
    held: Latents


def coded(f: Featurizer, x: Tensor, lam: float, codes: str) -> Latents:
    """Codes of rows: those of the encoder (``"as-is"``), or the optimal ones on the decoder (``"resolved"``)."""
    w, b = f.atoms[:, 0].double().numpy(), f.bias.double().numpy()
    if codes == "resolved":
        return resolve_rows(lambda: (part.double().numpy() for part in x.split(4096)), w, b, lam)
    with torch.no_grad():
        return latents(w, b, f.encode(x))


def certified(f: Featurizer, x: Tensor, held: Tensor, lam: float, codes: str) -> Certified:
    """Verdicts about exactly the rows `x`; `held` only has its codes made."""
    made = coded(f, x, lam, codes)
    found = certify_latents(lambda: (part.double().numpy() for part in x.split(4096)), made, lam, SETTINGS)
    return Certified(found, made, coded(f, held, lam, codes))


def matrix(codes: Latents) -> csr_array:
    """Codes as a sparse matrix (n, K)."""
    return csr_array((codes.values, codes.indices, codes.indptr), shape=(codes.n_rows, codes.n_latents))


def confirmed(feature: FeatureCertificate, held: Latents, z: csr_array) -> bool:
    """Whether the witness of an unstable feature also lowers the loss of held-out rows, at 95 % (one-sided).

    With β fixed, γ = E Σ_k β_k (1 - c_jk) z_k + β₀ is a mean over rows, so it has a standard error of its own: no noise
    of latents that β does not touch. And at most `LEAK` of the rows where j is off may need a negative code.
    """
    if feature.verdict != "unstable" or feature.witness is None:
        return False
    beta, j = feature.witness, feature.feature
    part = z[:, beta.index]
    gain = part @ (beta.weight * (1 - held.atoms[beta.index] @ held.atoms[j])) + beta.offset
    off = np.asarray(z[:, [j]].todense()).ravel() == 0
    size = float(np.abs(beta.weight).max(initial=0.0)) or 1.0
    bad = int(((part @ beta.weight + beta.offset)[off] > 1e-9 * size).sum())
    _, high = wilson(bad, int(off.sum())) if off.any() else (0.0, 0.0)
    return bool(gain.mean() > ONE_SIDED * gain.std() / len(gain) ** 0.5 and high <= LEAK)


def summary(c: Certified) -> dict[str, Any]:
    """Plain numbers of a certification, and the columns that predictions are made from."""
    features, z = c.found.features, matrix(c.held)
    columns = {
        "unstable": [float(f.verdict == "unstable") for f in features],
        "confirmed": [float(confirmed(f, c.held, z)) for f in features],
        "removable": [f.removable_loss for f in features],
        "violation": [f.violation_lower for f in features],
        "strain": [min(f.strain, 1e9) for f in features],
        "density": [f.density for f in features],
    }
    live = np.array(columns["density"]) > 0
    numbers = {o.name: [o.value, o.low, o.high] for o in (*c.found.numbers.values(), *c.found.kkt.values())}
    hits = int(np.array(columns["confirmed"])[live].sum())
    numbers["confirmed"] = [hits / max(int(live.sum()), 1), *wilson(hits, max(int(live.sum()), 1))]
    loss = c.found.loss.value or 0.0
    numbers["removable_sum"] = [sum(columns["removable"]) / loss, None, None]
    return {"numbers": numbers, "columns": columns, "lam": c.found.lam}
