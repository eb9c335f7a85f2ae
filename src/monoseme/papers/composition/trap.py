"""The ordering trap: one picture from a compositional and from a dense network, at several kinds of step.

At an equal step a dense network looks better than it is, because each of its many weights moves the picture less. So
answers, cosines and lost symmetry are also put into bins of visible change, over all kinds of step together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from monoseme.composition.emc2 import Emc2, WeightScore, emc2
from monoseme.composition.fractured import moved_asymmetry
from monoseme.composition.genome import Genome
from monoseme.composition.incremental import Rendering
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image
from monoseme.composition.scenes import scene
from monoseme.composition.xml_genome import load_genome
from monoseme.papers.composition.protocol import delta_of, protocol, threads
from monoseme.papers.composition.targets import judge_of, public_dense, target

__all__ = ["PUBLIC", "trap_trial"]

PUBLIC = "public "


def trap_trial(point: Mapping[str, Any], folder: Path, genomes: str | None = None) -> dict[str, float]:
    """One network of one target: ``kind`` is "known" (compositional) or "dense"; public targets need their folder."""
    threads()
    fixed, name = protocol(), str(point["target"])
    known: Genome = _public(name, genomes) if name.startswith(PUBLIC) else scene(name)
    own = layerize(known).render(int(fixed["size"]))
    judge = judge_of(own, name)
    if point["kind"] == "known":
        network: ImageNetwork | Genome = known
    elif name.startswith(PUBLIC):
        network = public_dense(Path(str(genomes)), name.removeprefix(PUBLIC)).float()
    else:
        network = _dense(name, layerize(known), int(point["seed"]), folder)
    numbers: dict[str, float] = {"calibration_error": judge.calibration.value or 0.0}
    layered = layerize(network) if isinstance(network, Genome) else network
    rendering = Rendering(layered, int(fixed["size"]))
    seen: list[tuple[WeightScore, float]] = []
    for words in fixed["deltas"]:
        sizes: dict[str, Any] = {"sample": int(fixed["trap_sample"]), "size": int(fixed["size"])}
        result = emc2(network, judge, delta_of(words), seed=int(point["seed"]), **sizes)
        numbers |= _numbers(result, words.split()[0])
        lost = moved_asymmetry(rendering, [one.move for one in result.per_weight])
        seen += [(one, lost[one.move][1]) for one in result.per_weight]
    numbers["weights"] = float(len(layered.entries()))
    return numbers | _bins(seen, fixed["edges"])


def _public(name: str, genomes: str | None) -> Genome:
    return load_genome(Path(str(genomes)) / f"{name.removeprefix(PUBLIC)}.zip")


def _dense(name: str, known: ImageNetwork, seed: int, folder: Path) -> ImageNetwork:
    """As large as the layerised one, trained as 2505.11581 does."""
    fixed = protocol()
    names = list(known.banks[0].names)
    made = ImageNetwork.dense(len(names), len(known.banks), names, seed=seed)
    options: dict[str, Any] = {
        "steps": int(fixed["dense_steps"]),
        "lr": float(fixed["dense_lr"]),
        "decay": False,
        "normalise": True,
    }
    fit_image(made, target(name, int(fixed["train_size"])), **options, out=folder / "fit")
    return made


def _numbers(result: Emc2, kind: str) -> dict[str, float]:
    def value(x: float | None) -> float:
        return math.nan if x is None else x

    return {
        "passes": float(result.baseline_passes),
        f"score {kind}": value(result.score.value) if result.baseline_passes else 0.0,
        f"visible {kind}": value(result.score_visible.value),
        f"unchanged {kind}": value(result.unchanged_share.value),
        f"change {kind}": float(np.median([one.change for one in result.per_weight])),
    }


def _bins(seen: list[tuple[WeightScore, float]], edges: list[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for low, high in pairwise(edges):
        inside = [(one, extra) for one, extra in seen if low <= one.change < high]
        where = f"{low:g}-{high:g}"
        found[f"n {where}"] = float(len(inside))
        if inside:
            found[f"yes {where}"] = float(np.mean([one.answer == "yes" for one, _ in inside]))
            found[f"cosine {where}"] = float(np.median([one.score for one, _ in inside if one.score is not None]))
            found[f"asymmetry {where}"] = float(np.mean([extra for _, extra in inside]))
    return found
