"""Certificates of the fits in `real`, and what they foretell: absorption by labels, and recurrence in a second seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from scipy.sparse import csr_array
from torch import Tensor

from monoseme.core.files import read_json, write_json
from monoseme.evaluation.absorption import absorption
from monoseme.featurizers import Featurizer
from monoseme.optimality import Certification, CertifySettings
from monoseme.optimality.certify import certify_latents
from monoseme.optimality.deciding import About
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.reading import latents
from monoseme.papers.optimality.real import Setting, gaussian, rows
from monoseme.store import ActivationStore

__all__ = ["RECURS", "auroc", "certified", "letter_labels", "predict", "recurs", "summary"]

RECURS = 0.7  # cosine of atoms above which a latent of one seed is there in the other; fixed before any run
CERTIFIED_ROWS = 20_000


def certified(f: Featurizer, x: Tensor, lam: float, codes: str, about: About, most: int) -> Certification:
    """Certificates on at most so many rows; for a population a fifth of them is held out."""
    rows = x[:most]
    away = np.zeros(len(rows), bool)
    if about == "population":
        away[np.random.default_rng(0).permutation(len(rows))[: len(rows) // 5]] = True
    made, parts = [], [rows[torch.from_numpy(~away)], rows[torch.from_numpy(away)]]
    w, b = f.atoms[:, 0].double().numpy(), f.bias.double().numpy()
    for part in parts:
        wide = part.double().numpy()
        made.append(
            resolve_rows(lambda wide=wide: iter([wide]), w, b, lam)
            if codes == "resolved" and len(part)
            else latents(w, b, f.encode(part))
        )
    batches = lambda: (part.double().numpy() for part in parts[0].split(4096))  # noqa: E731
    return certify_latents(batches, made[0], lam, CertifySettings(about=about, splits=False), made[1])


def summary(c: Certification) -> dict[str, Any]:
    """Plain numbers of a certification, and the columns that predictions are made from."""
    columns = {
        "unstable": [float(f.verdict == "unstable") for f in c.features],
        "removable": [f.removable_loss for f in c.features],
        "violation": [f.violation_lower for f in c.features],
        "strain": [min(f.strain, 1e9) for f in c.features],
        "density": [f.density for f in c.features],
    }
    numbers = {o.name: [o.value, o.low, o.high] for o in (*c.numbers.values(), *c.kkt.values())}
    return {"numbers": numbers, "columns": columns, "lam": c.lam}


def keep(path: Path, make: Any) -> dict[str, Any]:
    """Read what was computed before, or compute and keep it."""
    if not path.exists():
        write_json(path, make())
    return read_json(path)


def recurs(first: Float64[np.ndarray, "K d"], second: Float64[np.ndarray, "L d"]) -> Bool[np.ndarray, " K"]:
    """Which atoms of the first have one of the second at a cosine of at least `RECURS`."""
    return (first @ second.T).max(1) >= RECURS


def letter_labels(store: ActivationStore, least: int = 60) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of the test split, and for each letter whether the row's token begins a word with it."""
    x, pieces = [], []
    for name in store.samples("test"):
        sample = store.sample(name)
        assert sample.pieces is not None
        x.append(sample.rows.double().numpy())
        pieces += [sample.pieces[int(p)] for p in sample.positions]
    words = [p[1:] if p[:1] in (" ", "Ġ", "▁") else "" for p in pieces]
    first = np.array([w[0].lower() if len(w) > 1 and w.isalpha() and w.isascii() else "" for w in words])
    labels = {letter: first == letter for letter in "abcdefghijklmnopqrstuvwxyz" if (first == letter).sum() >= least}
    return np.concatenate(x), labels


def auroc(score: np.ndarray, truth: np.ndarray, draws: int = 1000, seed: int = 0) -> list[float | None]:
    """Area under the curve and its 95 % bootstrap interval over latents; ``None`` with one class only."""
    from sklearn.metrics import roc_auc_score

    if truth.all() or not truth.any():
        return [None, None, None]
    r, n, drawn = np.random.default_rng(seed), len(truth), []
    while len(drawn) < draws:
        i = r.integers(0, n, n)
        if truth[i].any() and not truth[i].all():
            drawn.append(roc_auc_score(truth[i], score[i]))
    return [float(roc_auc_score(truth, score)), *(float(q) for q in np.quantile(drawn, [0.025, 0.975]))]


def predict(
    first: Featurizer, second: Featurizer, columns: Mapping[str, list[float]], store: ActivationStore, text: bool
) -> dict[str, Any]:
    """AUROC of every column for three outcomes of a live latent: absorbs, has holes, does not recur."""
    atoms, other = (f.atoms[:, 0].double().numpy() for f in (first, second))
    live = np.array(columns["density"]) > 0
    cosine = atoms @ atoms.T - 2 * np.eye(len(atoms))
    scores = {**{k: np.array(v) for k, v in columns.items()}, "max_cosine": cosine.max(1)}
    truths: dict[str, tuple[np.ndarray, np.ndarray]] = {"not_recurring": (live, ~recurs(atoms, other))}
    rate: dict[str, float] = {}
    if text:
        x, labels = letter_labels(store)
        code = first.encode(torch.from_numpy(x).float())
        z = csr_array(
            (code.values[:, 0].double().numpy(), code.indices.numpy(), code.indptr.numpy()), shape=(len(x), len(atoms))
        )
        found = absorption(x, z, atoms, first.bias.double().numpy(), labels)
        rate = found.rate
        truths["absorbs"] = (live, found.absorbed > 0)
        truths["has_holes"] = (live & found.main, found.holes > 0)
    table = {
        outcome: {name: auroc(score[mask], truth[mask]) for name, score in scores.items()}
        for outcome, (mask, truth) in truths.items()
    }
    share = {outcome: float(truth[mask].mean()) for outcome, (mask, truth) in truths.items()}
    return {"auroc": table, "share": share, "rate": rate, "n": {o: int(m.sum()) for o, (m, _) in truths.items()}}


def run(setting: Setting, work: Path) -> None:
    """All certificates and predictions of one model, kept one by one in the work folder."""
    from monoseme.featurizers import load
    from monoseme.papers.optimality.real import WIDTHS

    store = ActivationStore.open(work / f"{setting.name}-pretrained")
    train, test = rows(store)
    drawn, _ = gaussian(train, len(test))
    control, _ = rows(ActivationStore.open(work / f"{setting.name}-random"))
    data = {"pretrained": train, "gaussian": drawn, "random": control}
    for width in WIDTHS:
        for kind, x in data.items():
            f = load(work / f"{setting.name}-{kind}-{width}-1")
            lam = float(f.units.scale) * setting.lam
            for codes in ("as-is", "resolved"):
                name = f"certificate-{setting.name}-{kind}-{width}-{codes}"
                keep(
                    work / f"{name}.json",
                    lambda f=f, x=x, lam=lam, codes=codes: summary(
                        certified(f, x, lam, codes, "population", CERTIFIED_ROWS)
                    ),
                )
        f, g = (load(work / f"{setting.name}-pretrained-{width}-{seed}") for seed in (1, 2))
        lam = float(f.units.scale) * setting.lam
        for codes in ("as-is", "resolved"):
            exact = keep(
                work / f"exact-{setting.name}-{width}-{codes}.json",
                lambda f=f, lam=lam, codes=codes: summary(certified(f, train, lam, codes, "rows", 10_000)),
            )
            keep(
                work / f"prediction-{setting.name}-{width}-{codes}.json",
                lambda f=f, g=g, exact=exact: predict(f, g, exact["columns"], store, setting.name == "text"),
            )
