"""The choices that the claims file fixes, and what every run scores by them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import torch

from monoseme.composition.emc2 import Emc2, emc2
from monoseme.composition.judges.features import FeatureJudge
from monoseme.composition.moves import Delta
from monoseme.composition.network import ImageNetwork
from monoseme.records import Claims

__all__ = ["bank", "delta_of", "protocol", "scored", "threads"]


@functools.cache
def protocol() -> Mapping[str, Any]:
    """The protocol of claims.toml."""
    with resources.as_file(resources.files("monoseme.papers.composition") / "claims.toml") as path:
        return Claims.load(path).protocol


def delta_of(words: str) -> Delta:
    """`Delta` from ``"absolute 0.5"``."""
    kind, size = words.split()
    return Delta(kind, float(size))


def bank(width: int) -> list[str]:
    """Activations of a dense network's neurons, in turn."""
    kinds: Sequence[str] = protocol()["activations"]
    return [kinds[i % len(kinds)] for i in range(width)]


def scored(network: ImageNetwork, judge: FeatureJudge, deltas: Sequence[str], seed: int) -> dict[str, float]:
    """Scores of a network at several kinds of step, and how its own picture does. NaN: no such picture.

    ``passes`` is 1 where the unperturbed picture passes, ``margin`` its cosine above the threshold; ``score KIND`` is 0
    where it does not pass, ``share KIND`` the share of yes all the same.
    """
    size = int(protocol()["size"])
    margin = float(judge.cosines(network.render(size)[None])[0]) - judge.threshold
    passes = margin >= protocol()["passes"]
    found = {"margin": margin, "passes": float(passes), "weights": float(len(network.entries()))}
    for words in deltas:
        kind = words.split()[0]
        if not network.entries():
            found |= {f"score {kind}": 0.0, f"share {kind}": math.nan, f"unchanged {kind}": math.nan}
            continue
        result = emc2(network, judge, delta_of(words), over="matrix", sample=protocol()["sample"], size=size, seed=seed)
        found |= _numbers(result, kind, passes)
    return found


def _numbers(result: Emc2, kind: str, passes: bool) -> dict[str, float]:
    share = result.score.value if result.score.value is not None else math.nan
    changed = result.unchanged_share.value if result.unchanged_share.value is not None else math.nan
    return {f"score {kind}": share if passes else 0.0, f"share {kind}": share, f"unchanged {kind}": changed}


def threads() -> None:
    """One thread a worker: pictures are small, and a pool has a process a core."""
    torch.set_num_threads(1)
