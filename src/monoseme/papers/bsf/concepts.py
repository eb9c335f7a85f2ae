"""What can be read off a block: one-concept F1, linear probes, one-block R², and where a light's direction lies.

A trial is a fit of one kind with one seed on one harvest, or the raw activations of it. Everything is read on cut-outs,
backgrounds and scenes that neither the fit nor the probe has seen. Controls: latents with as many dimensions, blocks
dealt anew, labels permuted over pictures, and the model with random weights.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from monoseme.core.code import Code
from monoseme.core.seeds import rng
from monoseme.evaluation import evaluate, one_block_r2, probe, probe_recovery, shuffled_blocks
from monoseme.evaluation.one_concept import one_concept_f1s
from monoseme.evaluation.probing import Probe, code_matrix, iou, pool
from monoseme.featurizers import Featurizer, build
from monoseme.papers.bsf.concept_data import CLASSES, Known, read, some
from monoseme.papers.bsf.tuned import BATCH, RATES, tuned
from monoseme.store import ActivationStore

__all__ = ["AT", "KINDS", "MODEL", "PROTOCOL", "RAW", "SIZES", "measure", "points"]

MODEL, AT = "dinov2-small-saliency", "blocks.9"
ACTIVE, DIRECTIONS, STEPS = 24, 768, 300
SIZES = (3, 4, 8)
KINDS = {
    "latents": ("TopK", 1),
    "signed latents": ("Grassmannian", 1),
    **{f"blocks {b}": ("Grassmannian", b) for b in SIZES},
}
RAW = "raw"
UNTRAINED = ("latents", "blocks 4", RAW)  # kinds tried on random weights
TOKENS = 32  # a picture, for probes of tokens
SHARED = ("depth", "luminance", "shadow")

PROTOCOL = {
    "at": AT, "active": ACTIVE, "directions": DIRECTIONS, "steps": STEPS, "batch": BATCH, "rates": list(RATES),
    "tokens": TOKENS, "version": 1,
}  # fmt: skip


def points() -> list[dict[str, Any]]:
    """Three seeds of every kind, the raw activations, and one seed of some on random weights."""
    made = [{"weights": "pretrained", "kind": kind, "draw": seed} for seed in range(3) for kind in KINDS]
    made.append({"weights": "pretrained", "kind": RAW, "draw": 0})
    return made + [{"weights": "random", "kind": kind, "draw": 0} for kind in UNTRAINED]


def measure(point: Mapping[str, Any], folder: Path, *, stores: str) -> dict[str, Any]:
    """Fit one kind and read all off it (see `learning.sweep`). `stores` holds the harvests and the patches."""
    store = ActivationStore.open(Path(stores) / f"concepts-{point['weights']}")
    known, seed = read(store, Path(stores) / "patches.npz"), point["draw"]
    if point["kind"] == RAW:
        return _raw(known)
    species, b = KINDS[point["kind"]]
    sizes = {"d_in": store.d_in, "n_blocks": DIRECTIONS // b, "k": ACTIVE // b, "seed": seed}
    sizes |= {"block_size": b} if species != "TopK" else {}
    train, held = store.rows("train"), store.rows("validation")
    f, rate, _ = tuned(functools.partial(build, species, sizes), train, held, folder / "fit", STEPS, seed)
    found: dict[str, Any] = {"lr": rate, "fvu": evaluate(f, store.rows("test"))["fvu"]}
    matrix = _codes(f, known)
    order = shuffled_blocks(f, seed=seed).order.numpy()
    found |= _f1(matrix, known, b) | _light(matrix, known, b)
    if b > 1:
        dealt = csr_array(matrix[:, order])
        found |= {f"shuffled {name}": value for name, value in (_f1(dealt, known, b) | _light(dealt, known, b)).items()}
        mixed = rng(seed, "labels").permutation(np.flatnonzero(known.kind == "stamp"))
        found |= {f"permuted {name}": value for name, value in _f1(matrix, known, b, mixed).items()}
    found |= _tasks(matrix, known) | _tokens_of_one(matrix, known, b)
    toward = _toward(known)
    recovery = probe_recovery(f.atoms, torch.from_numpy(toward), _centred(known), seed=seed)
    ceiling = recovery.ceiling
    return found | {"recovery": recovery.recovery, "recovery floor": recovery.floor, "recovery ceiling": ceiling}


@torch.no_grad()
def _codes(f: Featurizer, known: Known) -> Any:
    """(s·T, G b) sparse codes of all tokens."""
    return code_matrix(Code.cat([f.encode(part) for part in known.x.flatten(0, 1).split(8192)]))


def _f1(matrix: Any, known: Known, b: int, labels_of: np.ndarray | None = None) -> dict[str, Any]:
    """F1 of every class; of scalar latents also with 3, 4 and 8 of them. `labels_of`: whose labels the stamps get."""
    stamps, tokens = np.flatnonzero(known.kind == "stamp"), known.x.shape[1]
    rows = _rows(stamps, tokens)
    given = known.label[stamps if labels_of is None else labels_of]
    many = (1,) if b > 1 else (1, *SIZES)
    found: dict[str, Any] = {}
    for name in CLASSES:
        of = np.repeat(np.arange(len(stamps)), tokens)
        each = one_concept_f1s(matrix[rows], of, given == name, ~known.held[stamps], many, block_size=b)
        for n, one in each.items():
            found[f"f1 {name}" + (f" of {n}" if n > 1 else "")] = one.f1
        found[f"chance {name}"] = each[1].chance
    return found


def _light(matrix: Any, known: Known, b: int) -> dict[str, Any]:
    """R² of the light's azimuth from one block, or as many latents, averaged over a picture's tokens."""
    lit, tokens = np.flatnonzero(known.kind == "light"), known.x.shape[1]
    mean = csr_array(matrix[_rows(lit, tokens)]).toarray().reshape(len(lit), tokens, -1).mean(1)
    codes, angle = mean.reshape(len(lit), -1, b), known.azimuth[lit]
    target, held, layout = np.stack([np.cos(angle), np.sin(angle)], 1), known.held[lit], known.group[lit]
    found: dict[str, Any] = {}
    for n in (1,) if b > 1 else (1, *SIZES):
        one = one_block_r2(codes, target, layout, held, latents=n)
        found["azimuth" + (f" of {n}" if n > 1 else "")] = one.r2
    mixed = rng(0, "azimuth").permutation(len(lit))
    found["azimuth permuted"] = one_block_r2(codes, target[mixed], layout, held).r2
    return found


def _tokens_of_one(matrix: Any, known: Known, b: int) -> dict[str, Any]:
    """R² of what is known of a token from one block, or as many latents."""
    sample, position = some(known, "scene", TOKENS)
    dense = matrix[sample * known.x.shape[1] + position].toarray()
    found: dict[str, Any] = {}
    for name in SHARED:
        target = known.patches[name][sample, position]
        use = np.isfinite(target)
        codes, groups, held = dense[use].reshape(use.sum(), -1, b), known.group[sample[use]], known.held[sample[use]]
        for n in (1,) if b > 1 else (1, *SIZES):
            one = one_block_r2(codes, target[use][:, None], groups, held, latents=n)
            found[f"one {name}" + (f" of {n}" if n > 1 else "")] = one.r2
    return found


def _tasks(matrix: Any, known: Known) -> dict[str, Any]:
    """Linear probes of pictures and tokens; `matrix` has a row a token: codes, or activations."""
    tokens = known.x.shape[1]
    labelled = np.flatnonzero(np.isin(known.label, CLASSES))
    pooled, _ = pool(matrix[_rows(labelled, tokens)], np.repeat(np.arange(len(labelled)), tokens))
    found = _classes(pooled, known, labelled)
    sample, position = some(known, "stamp", TOKENS)
    inside = known.patches["object"][sample, position] > 0.5
    at, group = matrix[sample * tokens + position], known.group[sample]
    cut = probe(at, inside, group, held=known.held[sample])
    found["iou"] = iou(inside[cut.held], cut.predicted, group[cut.held])
    sample, position = some(known, "scene", TOKENS)
    for name in SHARED:
        found[name] = _value(matrix[sample * tokens + position], known, name, sample, position).score
    return found


def _classes(pooled: Any, known: Known, samples: np.ndarray) -> dict[str, Any]:
    """Share of each class's held-out pictures that is found, and their mean."""
    label = known.label[samples]
    made = probe(pooled, label, known.group[samples], held=known.held[samples])
    right = made.predicted == label[made.held]
    found: dict[str, Any] = {"accuracy": made.score, "balanced": made.balanced, "majority": made.baseline}
    return found | {f"recall {name}": float(right[label[made.held] == name].mean()) for name in CLASSES}


def _value(x: Any, known: Known, name: str, sample: np.ndarray, position: np.ndarray) -> Probe:
    target = known.patches[name][sample, position]
    use = np.isfinite(target)
    dense = x[use].toarray() if hasattr(x, "toarray") else x[use]
    return probe(dense, target[use], known.group[sample[use]], task="values", held=known.held[sample[use]])


def _raw(known: Known) -> dict[str, Any]:
    """The same probes on activations, and what the position of a token alone tells."""
    tokens = known.x.shape[1]
    rows = known.x.flatten(0, 1).double().numpy()
    found = _tasks(rows, known)
    labelled = np.flatnonzero(np.isin(known.label, CLASSES))
    mean = known.x[labelled].double().mean(1).numpy()
    found |= {f"mean {name}": value for name, value in _classes(mean, known, labelled).items()}
    sample, position = some(known, "scene", TOKENS)
    where = np.eye(tokens)[position]
    for name in SHARED:
        found[f"{name} of position"] = _value(where, known, name, sample, position).score
    for name, turn in (("cos", np.cos), ("sin", np.sin)):
        found[f"azimuth {name}"] = _azimuth(known, turn).score
    return found


def _azimuth(known: Known, turn: Any) -> Probe:
    lit = np.flatnonzero(known.kind == "light")
    mean = known.x[lit].double().mean(1).numpy()
    return probe(mean, turn(known.azimuth[lit]), known.group[lit], task="values", held=known.held[lit])


def _toward(known: Known) -> np.ndarray:
    """(2, d) directions from which the light's cosine and sine are read off raw activations."""
    return np.stack([made.weights[0] / made.scale for made in (_azimuth(known, turn) for turn in (np.cos, np.sin))])


def _centred(known: Known) -> torch.Tensor:
    rows = known.x[np.flatnonzero(known.kind == "scene")].flatten(0, 1)
    drawn = rng(0, "ceiling").permutation(len(rows))[:200]
    return rows[drawn] - rows.mean(0)


def _rows(samples: np.ndarray, tokens: int) -> np.ndarray:
    return (samples[:, None] * tokens + np.arange(tokens)).ravel()
