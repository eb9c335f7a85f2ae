"""Curves and gratings in a real convolutional network: how many neurons, latents or blocks the ring is broken into.

Featurizers are fitted on natural pictures only. Then 1,800 curves of every orientation are drawn into the middle of the
picture, and read at the four tokens there. Controls: the network with random weights, and directions dealt to blocks
anew. A trial is one network and one seed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.protocols import Featurizes
from monoseme.evaluation import fragmentation, harmonics, phase_check, shuffled_blocks
from monoseme.featurizers import build
from monoseme.models import HookedModel, open_model
from monoseme.papers.bsf.tuned import tuned
from monoseme.store import ActivationStore
from monoseme.worlds.stimuli import curves, gratings

__all__ = ["ACTIVE", "ANGLES", "AT", "DIRECTIONS", "KINDS", "MODEL", "centre", "measure", "points", "tuning"]

MODEL, AT = "efficientnet-lite0", "blocks.5.expand"  # 240 channels of 28 × 28, after two strides: where curves are
ACTIVE, DIRECTIONS = 32, 960
KINDS = {
    "latents": ("TopK", 1),
    "signed latents": ("BlockTopK", 1),
    "vanilla 4": ("BlockTopK", 4),
    "blocks 2": ("Grassmannian", 2),
    "blocks 4": ("Grassmannian", 4),
    "blocks 16": ("Grassmannian", 16),
}
SHUFFLED = ("blocks 4", "blocks 16")
ANGLES, EVERY = 1800, 5  # drawn; of them every fifth says where on the ring one is, which is compared in pairs
REFERENCE = "blocks 16"
CYCLES, ORIENTATIONS, PHASES = (12.0, 18.0, 27.0), 6, 48
FEWEST = 0.25  # of its 95th percentile on natural pictures: below, a unit does not answer a grating
ARC = {"radius": 0.1, "width": 0.025, "span": 2.2}  # in sides: 22 of 224 pixels, as a curve detector sees


def points() -> list[dict[str, Any]]:
    """Three seeds of the trained network, one of the untrained."""
    return [{"weights": "pretrained", "draw": seed} for seed in range(3)] + [{"weights": "random", "draw": 0}]


def measure(point: Mapping[str, Any], folder: Path, *, stores: str) -> dict[str, Any]:
    """Fit every kind on natural pictures and measure it on drawn ones (see `learning.sweep`)."""
    store = ActivationStore.open(Path(stores) / f"curves-{point['weights']}")
    model = open_model(MODEL, weights=point["weights"])
    train, held, seed = store.rows("train"), store.rows("validation"), point["draw"]
    fitted: dict[str, Featurizes] = {}
    found: dict[str, Any] = {}
    for name, (species, b) in KINDS.items():
        sizes = {"d_in": train.d_in, "n_blocks": DIRECTIONS // b, "k": ACTIVE // b, "seed": seed}
        sizes |= {"block_size": b} if species != "TopK" else {}
        fitted[name], found[f"{name} lr"], _ = tuned(
            functools.partial(build, species, sizes), train, held, folder / name.replace(" ", "-"), seed=seed
        )
        if name in SHUFFLED:
            fitted[f"{name} shuffled"] = shuffled_blocks(fitted[name], seed=seed)
    theta = 2 * np.pi * np.arange(ANGLES) / ANGLES
    natural = held.batch(0, min(20_000, len(held)), seed=0).x.float()
    drawn = centre(model, AT, (curves(part, 224, **ARC) for part in np.array_split(theta, 60)))
    found |= _ring(fitted, drawn, theta)
    found |= _cells(fitted, model, natural)
    return found


@torch.no_grad()
def centre(model: HookedModel, at: str, pictures: Iterator[Float32[np.ndarray, "n h w 3"]]) -> Float[Tensor, "n 4 d"]:
    """Activations at the four tokens in the middle."""
    assert model.preprocess is not None
    kept = []
    for batch in pictures:
        given = torch.stack([model.preprocess((255 * one).round().astype(np.uint8)) for one in batch])
        tokens = model.run(given, at)
        side = round(tokens.shape[1] ** 0.5)
        square = tokens.unflatten(1, (side, side))[:, side // 2 - 1 : side // 2 + 1, side // 2 - 1 : side // 2 + 1]
        kept.append(square.flatten(1, 2))
    return torch.cat(kept)


def tuning(f: Featurizes, rows: Float[Tensor, "n 4 d"]) -> Float64[np.ndarray, "G n b"]:
    """Codes of every block, averaged over the tokens of a picture."""
    code = f.encode(rows.flatten(0, 1))
    n, tokens = rows.shape[:2]
    found = torch.zeros(code.n_blocks * n, code.block_size, dtype=torch.float64)
    found.index_add_(0, code.indices.long() * n + code.rows // tokens, code.values.double() / tokens)
    return found.unflatten(0, (code.n_blocks, n)).numpy()


def _ring(
    fitted: Mapping[str, Featurizes], drawn: Float[Tensor, "n 4 d"], theta: Float64[np.ndarray, " n"]
) -> dict[str, Any]:
    units = {name: tuning(f, drawn) for name, f in fitted.items()}
    units["neurons"] = drawn.double().mean(1).T[:, :, None].numpy()
    live = {name: [unit for unit in all_ if np.ptp(unit, axis=0).max() > 0] for name, all_ in units.items()}
    few = {name: [unit[::EVERY] for unit in some] for name, some in live.items() if some}
    found: dict[str, Any] = {}
    for name, cover in fragmentation(few, theta[::EVERY], reference=REFERENCE, most=24).items():
        many = float(len(cover.units)) if cover.reached else None
        note = "" if cover.reached else f"{cover.units[-1][1]:.2f} with {len(cover.units)}"
        found |= {
            f"{name} single": Outcome("single", cover.single, "share of the ring", better="higher"),
            f"{name} units": unknown("units", "units", note) if many is None else Outcome("units", many, "units"),
            f"{name} width": Outcome("width", cover.width, "share of the ring"),
            f"{name} live": len(live[name]),
        }
        best = live[name][cover.units[0][0]]
        wave = harmonics(best, theta)
        found |= {f"{name} harmonic {i + 1}": float(share) for i, share in enumerate(wave.shares)}
        found |= {f"{name} floor": wave.floor, f"{name} coverage": wave.coverage}
        found |= {f"{name} deviations {i + 1}": float(z) for i, z in enumerate(wave.deviations)}
    return found


def _cells(fitted: Mapping[str, Featurizes], model: HookedModel, natural: Float[Tensor, "n d"]) -> dict[str, Any]:
    """Of all units that answer a grating: how many are complex cells, and the steadiest one."""
    phases = 2 * np.pi * np.arange(PHASES) / PHASES
    turns = np.pi * np.arange(ORIENTATIONS) / ORIENTATIONS
    kinds = [(turn, cycles) for turn in turns for cycles in CYCLES]
    shown = [
        centre(model, AT, iter([gratings(phases, 224, orientation=turn, cycles=cycles)])) for turn, cycles in kinds
    ]
    found: dict[str, Any] = {}
    for name, f in fitted.items():
        usual = _usual(f, natural)
        checks = []
        for rows in shown:
            values = tuning(f, rows)
            size = np.linalg.norm(values, axis=2)
            # at every phase: a norm that falls to nothing is not steady
            answers = np.flatnonzero((size.mean(1) >= FEWEST * usual) & (size.mean(1) > 0))
            checks += [phase_check(values[i]) for i in answers]
        found[f"{name} answers"] = len(checks)
        found[f"{name} complex"] = sum(check.complex_cell for check in checks)
        steady = [check.ripple for check in checks if abs(abs(check.turns) - 1) < 0.05] if f.atoms.shape[1] > 1 else []
        steady = steady or [check.ripple for check in checks]
        found[f"{name} ripple"] = min(steady) if steady else float("nan")
    return found


def _usual(f: Featurizes, rows: Float[Tensor, "n d"]) -> Float64[np.ndarray, " G"]:
    """95th percentile of every block's presence on the rows where it fires; infinite where it never does."""
    code = f.encode(rows)
    order = torch.argsort(code.indices.long(), stable=True)
    parts = torch.split(code.presence.double()[order], code.counts().tolist())
    return np.array([float(part.quantile(0.95)) if len(part) else np.inf for part in parts])
