"""A certification made of nothing but a seed, shaped like a real one: for the tests of records, pages and commands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.core.stats import wilson
from monoseme.optimality.certification import Certification, FeatureCertificate, Verdict, Witness

ENCODER = (
    "L1-equivalent stability: this featurizer is not trained with L1, so the verdicts speak of an L1 problem on its "
    "codes."
)


def made_atoms(features: int, width: int = 64, seed: int = 0) -> np.ndarray:
    """(K, d) unit atoms; the seven features behind every eighth lean towards it: a parent and its children."""
    stream = rng(seed, "atoms")
    atoms = stream.normal(size=(features, width))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    lean = np.where(np.arange(features) % 8 == 0, 0, stream.uniform(0, 1.2, features))[:, None]
    atoms = atoms + lean * atoms[np.arange(features) // 8 * 8]
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def made_certification(features: int = 4096, seed: int = 0, notes: tuple[str, ...] = (ENCODER,)) -> Certification:
    """Parents are unstable or unknown, some of their children split, the rest is stable."""
    certificates = tuple(_feature(j, features, seed) for j in range(features))
    live = [c for c in certificates if c.density > 0]
    numbers = [
        *(_share(v, sum(c.verdict == v for c in live), len(live)) for v in ("stable", "unstable", "unknown")),
        _share("dead_share", features - len(live), features),
        Outcome("loss", 41.27, "‖x‖²", better="lower", note="E‖zW + b - x‖² + 2λ E Σ z"),
        Outcome("reconstruction", 30.11, "‖x‖²", better="lower"),
        Outcome("l0", 21.7, "latents/row"),
        Outcome(
            "removable", 0.0018, "share", better="lower", note="what the best single certificate removes for certain"
        ),
        Outcome("wide_bound", 33.06, "‖x‖²", note="no dictionary of any width and bias is below"),
        Outcome("gap", 8.21, "‖x‖²", better="lower", note="loss above the wide bound"),
        unknown("rays", "atoms", "too many rows to hold in memory"),
    ]
    kkt = [
        Outcome("k1_active", 0.0312, "λ", better="lower", note="codes that are on: rms of ⟨w, r⟩ - λ"),
        Outcome("k1_inactive", 1.871, "λ", better="lower", note="the worst code that is off: largest ⟨w, r⟩ - λ"),
        Outcome("k2", 0.0871, "‖λm‖", better="lower", note="all atoms: ‖E[z r] - λ m w‖"),
        Outcome("k3", 0.0009, "λ", better="lower", note="bias: ‖E r‖"),
        Outcome("implied_lam", 0.0487, "‖x‖", note="λ that K2 reads from codes and residuals"),
    ]
    return Certification(
        certificates,
        {o.name: o for o in numbers},
        {o.name: o for o in kkt},
        lam=0.05,
        about="rows",
        learned_bias=True,
        notes=notes,
        provenance={"rows": 20000, "split": "test", "codes": "as-is"},
    )


def _share(name: str, count: int, of: int) -> Outcome:
    low, high = wilson(count, of)
    return Outcome(name, count / of, "share", low, high, n=of, n_unit="features")


def _feature(j: int, features: int, seed: int) -> FeatureCertificate:
    stream = rng(seed, "feature", j)
    density = float(10 ** stream.normal(-2.3, 0.5)) if j % 97 else 0.0
    density, parent = min(density, 0.9), j // 8 * 8
    children = np.array([k for k in range(parent + 1, min(parent + 8, features)) if k % 3 != seed % 3])
    base = {"feature": j, "block": j, "side": 1, "density": density}
    if j % 97 == 0:
        return _certificate(base, "unknown", "it is never active on these rows", violation_upper=math.inf)
    if j == parent and len(children):
        return _parent(j, children, base, stream)
    near = j % 2 == 1 and parent < j
    return _certificate(
        base,
        "stable",
        "the condition holds on these rows",
        violation_upper=1e-7,
        witness=Witness("rows", np.arange(3), np.full(3, 1 / 3)),
        strain=float(1 + 10 ** stream.normal(-1, 0.6)) if near else 1 / (1 - density),
        strain_partner=parent if near else -1,
        split_gain=float(10 ** stream.normal(-4, 0.6)) if j % 11 == 0 else 0.0,
    )


def _parent(j: int, children: np.ndarray, base: dict[str, Any], stream: np.random.Generator) -> FeatureCertificate:
    strict, gain = j % 3 == 0, float(10 ** stream.normal(-3.2, 0.8))
    d = math.sqrt(gain / 0.05)
    known = {
        "strain": math.inf if strict else float(1 + 10 ** stream.normal(1, 0.7)),
        "strain_partner": int(children[0]),
    }
    if j % 5 == 4:
        why = "the violation is within the noise of the means"
        return _certificate(base, "unknown", why, violation_upper=d, **known)
    weight = np.sort(stream.dirichlet(np.ones(len(children))))[::-1].copy()
    return _certificate(
        base,
        "unstable",
        f"{children[0]} would absorb it: 100.0% of the rows of {children[0]} are rows of it too",
        removable_loss=gain,
        violation_lower=d,
        violation_upper=d if strict else 1.13 * d,
        partners=tuple(children.tolist()),
        witness=Witness("beta", children, weight),
        antipode_gain=gain / 3 if j % 64 == 0 else 0.0,
        **known,
    )


def _certificate(base: dict[str, Any], verdict: Verdict, why: str, **known: Any) -> FeatureCertificate:
    least = {"removable_loss": 0.0, "violation_lower": 0.0, "violation_upper": 0.0}
    return FeatureCertificate(**base, verdict=verdict, why=why, **{**least, **known})
