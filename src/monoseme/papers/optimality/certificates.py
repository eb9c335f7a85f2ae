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
from monoseme.optimality.columns import Columns, columns
from monoseme.optimality.deciding import objection
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.latents import Latents
from monoseme.optimality.reading import latents

__all__ = ["Certified", "certified", "coded", "confirmed", "matrix", "summary"]

SETTINGS = CertifySettings(about="rows", splits=False, wide=False)


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


def confirmed(feature: FeatureCertificate, held: Latents, by: Columns) -> bool:
    """Whether the witness of an unstable feature also holds on held-out rows."""
    if feature.verdict != "unstable" or feature.witness is None:
        return False
    return not objection(feature.witness, held, by, feature.feature)


def summary(c: Certified) -> dict[str, Any]:
    """Plain numbers of a certification, and the columns that predictions are made from."""
    features, by = c.found.features, columns(c.held)
    kept = {
        "unstable": [float(f.verdict == "unstable") for f in features],
        "confirmed": [float(confirmed(f, c.held, by)) for f in features],
        "removable": [f.removable_loss for f in features],
        "violation": [f.violation_lower for f in features],
        "strain": [min(f.strain, 1e9) for f in features],
        "density": [f.density for f in features],
    }
    live = np.array(kept["density"]) > 0
    numbers = {o.name: [o.value, o.low, o.high] for o in (*c.found.numbers.values(), *c.found.kkt.values())}
    hits = int(np.array(kept["confirmed"])[live].sum())
    numbers["confirmed"] = [hits / max(int(live.sum()), 1), *wilson(hits, max(int(live.sum()), 1))]
    loss = c.found.loss.value or 0.0
    numbers["removable_sum"] = [sum(kept["removable"]) / loss, None, None]
    return {"numbers": numbers, "columns": kept, "lam": c.found.lam}
