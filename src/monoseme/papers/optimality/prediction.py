"""What verdicts on one seed foretell: absorption by labels, and which latents fail to recur in a second seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from scipy.sparse import csr_array
from torch import Tensor

from monoseme.core.files import read_json, write_json
from monoseme.core.seeds import rng
from monoseme.evaluation.absorption import absorption
from monoseme.featurizers import Featurizer, load
from monoseme.papers.optimality.certificates import certified, coded, matrix, summary
from monoseme.papers.optimality.labels import Labelled, labelled
from monoseme.papers.optimality.real import WIDTHS, Setting, gaussian, rows
from monoseme.papers.optimality.repairs import repaired
from monoseme.store import ActivationStore

__all__ = ["RECURS", "auroc", "best_correlation", "best_cosine", "predict", "run"]

RECURS = 0.7  # of both readings; fixed before any run
STRATA = 5  # of density, for the area within latents that fire about as often
CERTIFIED_ROWS = 8000
REPAIRED = (256, 512)  # widths; a refit of codes and atoms takes minutes


def best_cosine(first: Float64[np.ndarray, "K d"], second: Float64[np.ndarray, "L d"]) -> Float64[np.ndarray, " K"]:
    """Of every atom, the largest cosine with one of the second dictionary."""
    return (first @ second.T).max(1)


def best_correlation(first: csr_array, second: csr_array) -> Float64[np.ndarray, " K"]:
    """Of every latent, the largest correlation of its codes with those of a latent of the second, on the same rows."""

    def moments(z: csr_array) -> tuple[np.ndarray, np.ndarray]:
        mean = np.asarray(z.mean(0)).ravel()
        return mean, np.sqrt(np.maximum(np.asarray(z.multiply(z).mean(0)).ravel() - mean**2, 0.0))

    (mean, size), (mean2, size2) = moments(first), moments(second)
    n = first.shape[0]  # pyright: ignore[reportOptionalSubscript]
    shared = (first.T @ second).toarray() / n - np.outer(mean, mean2)
    scale = np.outer(size, size2)
    return np.divide(shared, scale, out=np.zeros_like(shared), where=scale > 0).max(1)


def auroc(
    score: np.ndarray, truth: Bool[np.ndarray, " n"], strata: np.ndarray | None = None, draws: int = 500, seed: int = 0
) -> list[float | None]:
    """Area under the curve and its 95 % bootstrap interval over latents; ``None`` with one class only.

    With `strata` only latents of one stratum are compared: the mean of the strata's areas, weighted by their pairs.
    """
    strata = np.zeros(len(truth), int) if strata is None else strata
    value, r, drawn = _area(score, truth, strata), rng(seed, "auroc"), []
    if value is None:
        return [None, None, None]
    for _ in range(draws):
        i = r.integers(0, len(truth), len(truth))
        again = _area(score[i], truth[i], strata[i])
        drawn += [] if again is None else [again]
    return [value, *(float(q) for q in np.quantile(drawn, [0.025, 0.975]))]


def _area(score: np.ndarray, truth: np.ndarray, strata: np.ndarray) -> float | None:
    from sklearn.metrics import roc_auc_score

    total, pairs = 0.0, 0
    for stratum in np.unique(strata):
        mine = strata == stratum
        many = int(truth[mine].sum()) * int((~truth[mine]).sum())
        if many:
            total, pairs = total + many * float(roc_auc_score(truth[mine], score[mine])), pairs + many
    return total / pairs if pairs else None


def predict(
    pair: tuple[Featurizer, Featurizer],
    held: Tensor,
    known: Labelled,
    columns: Mapping[str, list[float]],
    lam: float,
    codes: str,
) -> dict[str, Any]:
    """Areas of every column for four outcomes of a live latent of the first of a pair.

    It absorbs; it is a main latent whose rows others absorb; it has no like atom in the second; it has no latent there
    that fires alike on held-out rows.

    `density` and `max_cosine` (to another atom) are the baselines. An area below one half foretells the opposite.
    """
    import torch

    atoms, other = (f.atoms[:, 0].double().numpy() for f in pair)
    live = np.array(columns["density"]) > 0
    cosine = atoms @ atoms.T - 2 * np.eye(len(atoms))
    scores = {**{k: np.array(v) for k, v in columns.items()}, "max_cosine": cosine.max(1)}
    alike = best_correlation(*(matrix(coded(f, held, lam, codes)) for f in pair))
    z = matrix(coded(pair[0], torch.from_numpy(known.x).float(), lam, codes)).tocsc()
    bias = pair[0].bias.double().numpy()
    found = absorption(known.x, z, atoms, bias, known.labels, known.groups)
    truths = {
        "absorbs": (live, found.absorbed > 0),
        "is_absorbed": (live & found.main, found.holes > 0),
        "atom_not_recurring": (live, best_cosine(atoms, other) < RECURS),
        "firing_not_recurring": (live, alike < RECURS),
    }
    table = {}
    for outcome, (mask, truth) in truths.items():
        d = scores["density"][mask]
        strata = np.searchsorted(np.quantile(d, np.arange(1, STRATA) / STRATA), d) if len(d) else np.zeros(0, int)
        table[outcome] = {
            name: {"all": auroc(s[mask], truth[mask]), "alike_density": auroc(s[mask], truth[mask], strata)}
            for name, s in scores.items()
        }
    share = {o: float(truth[mask].mean()) if mask.any() else None for o, (mask, truth) in truths.items()}
    return {"auroc": table, "share": share, "rate": found.rate, "n": {o: int(m.sum()) for o, (m, _) in truths.items()}}


def keep(path: Path, make: Any) -> dict[str, Any]:
    """Read what was computed before, or compute and keep it."""
    if not path.exists():
        write_json(path, make())
    return read_json(path)


def run(setting: Setting, work: Path, widths: tuple[int, ...] = WIDTHS) -> None:
    """All certificates and predictions of one model, kept one by one in the work folder."""
    store = ActivationStore.open(work / f"{setting.name}-pretrained")
    train, test = rows(store)
    data = {
        "pretrained": (train, test),
        "random": rows(ActivationStore.open(work / f"{setting.name}-random")),
        "gaussian": gaussian(train, len(test)),
    }
    known = labelled(store)
    for width, codes in product(widths, ("as-is", "resolved")):
        columns = {
            kind: keep(
                work / f"certificate-{setting.name}-{kind}-{width}-{codes}.json",
                partial(_certificate, work / f"{setting.name}-{kind}-{width}-1", *data[kind], setting.lam, codes),
            )["columns"]
            for kind in data
        }
        pair = tuple(work / f"{setting.name}-pretrained-{width}-{seed}" for seed in (1, 2))
        make = partial(_prediction, pair, test, known, columns["pretrained"], setting.lam, codes)
        keep(work / f"prediction-{setting.name}-{width}-{codes}.json", make)
    for width in (w for w in widths if w in REPAIRED):
        pair = tuple(work / f"{setting.name}-pretrained-{width}-{seed}" for seed in (1, 2))
        make = partial(_repair, pair, train, test, known, setting.lam)
        keep(work / f"repair-{setting.name}-{width}.json", make)


def _certificate(path: Path, train: Tensor, held: Tensor, lam: float, codes: str) -> dict[str, Any]:
    f = load(path)
    return summary(certified(f, train[:CERTIFIED_ROWS], held, float(f.units.scale) * lam, codes))


def _prediction(
    paths: tuple[Path, ...],
    held: Tensor,
    known: Labelled,
    columns: Mapping[str, list[float]],
    lam: float,
    codes: str,
) -> dict[str, Any]:
    first, second = (load(path) for path in paths)
    return predict((first, second), held, known, columns, float(first.units.scale) * lam, codes)


def _repair(paths: tuple[Path, ...], train: Tensor, held: Tensor, known: Labelled, lam: float) -> dict[str, Any]:
    first, second = (load(path) for path in paths)
    return repaired(first, second, train, held, known, float(first.units.scale) * lam)
