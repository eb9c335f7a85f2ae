"""What the claims are judged by, read from finished sweeps: nothing here trains, so it can be run again at any time.

"Score" is at a visible change of 0.1 unless the name says raw; 0 where the unperturbed picture does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from monoseme.composition.graph_sparsity import graph_sparsity
from monoseme.composition.layerize import layerize
from monoseme.composition.png import png_ratio
from monoseme.composition.scenes import scene
from monoseme.composition.volume import volume_ratio
from monoseme.core.outcome import Outcome, unknown
from monoseme.papers.composition.cuts import BASELINES, METHODS
from monoseme.papers.composition.finished import Row, mean, over, rows, values
from monoseme.papers.composition.protocol import protocol
from monoseme.papers.composition.targets import PHOTOGRAPHS, SEVERAL, target

__all__ = ["recipe"]

SCORE, RAW = "score visible", "score absolute"
LOGS = ("loss", "top", "trace", "rise")
FEW = 5  # moves in a bin below which it says nothing


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    pruned = ("only-similarity", "similarity-above", "which-connections", "transfer", "several-objects")
    makers: dict[str, Callable[[Path], dict[str, Outcome]]] = {
        **dict.fromkeys(("trap-raw", "trap-visible", "trap-symmetry"), trap),
        **dict.fromkeys(pruned, cuts),
        **dict.fromkeys(("depth-peak", "png-depth", "volume-peak"), shapes),
        **dict.fromkeys(("muon-loss", "muon-score"), optimisers),
    }
    return {name: outcome for claim in wanted for name, outcome in makers[claim](work).items()}


def trap(work: Path) -> dict[str, Outcome]:
    """Compositional networks against dense ones, at equal steps and at equal change."""
    table = rows(work, "trap")
    names = _targets(table)

    def gap(number: str, first: str, second: str) -> Callable[[str], float]:
        return lambda name: mean(table, number, target=name, kind=first) - mean(table, number, target=name, kind=second)

    found = over(names, gap(RAW, "dense", "known"), "trap/raw_dense_minus_known")
    found |= over(names, gap(SCORE, "known", "dense"), "trap/known_minus_dense")
    bins = [f"{low:g}-{high:g}" for low, high in pairwise(protocol()["edges"])]

    def lost(name: str) -> float:
        gaps = [gap(f"asymmetry {where}", "dense", "known")(name) for where in bins if _enough(table, name, where)]
        return float(np.mean(gaps)) if gaps else math.nan

    found |= over(names, lost, "trap/asymmetry_dense_minus_known", "pixel RMS")
    for where in bins:
        for number, unit in (("yes", "share"), ("cosine", "1"), ("asymmetry", "pixel RMS")):
            for kind in ("known", "dense"):

                def one(name: str, number: str = number, where: str = where, kind: str = kind) -> float:
                    return mean(table, f"{number} {where}", target=name, kind=kind)

                found |= over(names, one, f"trap/{where}/{kind}_{number}", unit)
    return found


def _enough(table: Sequence[Row], name: str, where: str) -> bool:
    return all(mean(table, f"n {where}", target=name, kind=kind) >= FEW for kind in ("known", "dense"))


def cuts(work: Path) -> dict[str, Outcome]:
    """Similarity pruning against baselines and controls."""
    table, levels = rows(work, "cuts"), [f"{level:g}" for level in protocol()["levels"]]
    names, last = _targets(table), levels[-1]
    common = {name: _common(table, name, levels) for name in names}

    def at(name: str, method: str, number: str = SCORE) -> float:
        level = common[name]
        return math.nan if level is None else mean(table, f"{level} {number}", target=name, method=method)

    def above(name: str, others: Sequence[str], number: str = SCORE) -> float:
        return at(name, "similarity", number) - max(at(name, other, number) for other in others)

    found = over(
        names, lambda name: mean(table, f"{last} {SCORE}", target=name, method="similarity"), "cuts/similarity_last"
    )
    others = {
        one: float(np.mean([mean(table, f"{last} {SCORE}", target=n, method=one) for n in names])) for one in BASELINES
    }
    best = max(others, key=lambda one: others[one])
    found["cuts/best_other_last"] = Outcome("best_other_last", others[best], "share", note=f"{best}, at {last}")
    found |= over(names, lambda name: above(name, BASELINES), "cuts/similarity_minus_best_baseline")
    found |= over(names, lambda name: above(name, BASELINES, RAW), "cuts/raw_similarity_minus_best_baseline")
    found |= over(names, lambda name: above(name, ["shuffled"]), "cuts/similarity_minus_shuffled")
    found |= over(names, lambda name: above(name, ["random-neurons"]), "cuts/similarity_minus_pairs")
    photographs, one = [n for n in names if n in PHOTOGRAPHS], [n for n in names if n not in SEVERAL]
    found |= over(photographs, lambda name: above(name, BASELINES), "cuts/photo_minus_best_baseline")
    found |= over(one, lambda name: above(name, BASELINES), "cuts/advantage_one")
    found |= over([n for n in names if n in SEVERAL], lambda name: above(name, BASELINES), "cuts/advantage_several")
    for name, level in common.items():
        note = "highest at which every method's picture passes with most seeds"
        key = f"cuts/common_sparsity/{name}"
        found[key] = unknown(key, "share", "none") if level is None else Outcome(key, float(level), "share", note=note)
    for method in METHODS:
        for level in levels:
            for number in (SCORE, RAW, "passes"):
                key = f"cuts/{method}/{level}/{number.replace(' ', '_')}"
                found |= _whole(over(names, _at(table, f"{level} {number}", method=method), key))
    return found


def _at(table: Sequence[Row], number: str, **where: str) -> Callable[[str], float]:
    return lambda name: mean(table, number, target=name, **where)


def _whole(found: dict[str, Outcome]) -> dict[str, Outcome]:
    """Only the mean over targets."""
    return dict([next(iter(found.items()))])


def _common(table: Sequence[Row], name: str, levels: Sequence[str]) -> str | None:
    """The highest level at which the unperturbed picture of every method passes with at least half of the seeds."""
    good = [
        level
        for level in levels
        if all(mean(table, f"{level} passes", target=name, method=method) >= 0.5 for method in METHODS)
    ]
    return good[-1] if good else None


def shapes(work: Path) -> dict[str, Outcome]:
    """Where the score of similarity-pruned networks peaks over depth, and what foretells it."""
    table = rows(work, "shapes")
    names, depths = _targets(table), sorted({int(row["depth"]) for row in table})
    cut = f"cut {SCORE}"

    def best(name: str, seeds: Sequence[int]) -> int:
        chosen = [row for row in table if row["seed"] in seeds]
        return max(depths, key=lambda depth: mean(chosen, cut, target=name, depth=depth))

    seeds = sorted({row["seed"] for row in table})
    tops = {name: best(name, seeds) for name in names}
    inside = [depths[0] < top < depths[-1] for top in tops.values()]

    def above_ends(name: str) -> float:
        # the depth is chosen by the other seeds, or the best of many would always be above its ends
        gaps = []
        for seed in seeds:
            top, mine = best(name, [other for other in seeds if other != seed]), {"target": name, "seed": seed}
            ends = [mean(table, cut, depth=depth, **mine) for depth in (depths[0], depths[-1])]
            gaps.append(mean(table, cut, depth=top, **mine) - max(ends))
        return float(np.mean(gaps))

    ratios = [png_ratio(target(name, int(protocol()["size"]))) for name in names]
    found = {
        "shapes/inside_share": Outcome("inside_share", float(np.mean(inside)), "share", n=len(names), n_unit="targets"),
        "shapes/best_depths": Outcome("best_depths", float(len(set(tops.values()))), "depths"),
        "shapes/png_pearson": _correlation("png_pearson", ratios, [float(tops[name]) for name in names]),
    }
    found |= {f"shapes/best_depth/{name}": Outcome("best_depth", float(top), "layers") for name, top in tops.items()}
    found |= over(names, above_ends, "shapes/peak_above_ends")
    found |= over(names, lambda name: _volume(table, name, cut), "shapes/volume_spearman", "1")
    for when in ("full", "cut"):
        for depth in depths:
            key = f"shapes/{when}/{depth}"
            found |= over(names, lambda name, w=when, d=depth: mean(table, f"{w} {SCORE}", target=name, depth=d), key)
    return found


def _volume(table: Sequence[Row], name: str, number: str) -> float:
    """Rank correlation over shapes with our formula, at the layerised genome's width and depth."""
    from scipy.stats import spearmanr

    net = layerize(scene(name))
    width, depth = len(net.banks[0].names), len(net.banks)
    parts = graph_sparsity(scene(name)).primitives
    pairs = sorted({(int(row["width"]), int(row["depth"])) for row in table})
    scores = [mean(table, number, target=name, width=w, depth=d) for w, d in pairs]
    rho = [volume_ratio(w, d, least_width=width, best_depth=depth, primitives=parts) for w, d in pairs]
    if np.ptp(scores) == 0:
        return math.nan
    return float(spearmanr(rho, scores)[0])  # pyright: ignore[reportArgumentType]


def _correlation(name: str, x: Sequence[float], y: Sequence[float]) -> Outcome:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return unknown(name, "1", "fewer than three targets, or all alike")
    return Outcome(name, float(np.corrcoef(x, y)[0, 1]), "1", n=len(x), n_unit="targets")


def optimisers(work: Path) -> dict[str, Outcome]:
    """Muon minus Adam, each at the rate with the least loss."""
    table = rows(work, "optimisers")
    names = _targets(table)

    def at_best(name: str, optimiser: str, number: str) -> float:
        mine = [row for row in table if row["target"] == name and row["optimiser"] == optimiser]
        rates = sorted({row["lr"] for row in mine})
        rate = min(rates, key=lambda lr: mean(mine, "loss", lr=lr))
        found = values(mine, number, lr=rate)
        return float(np.mean(np.log10(found) if number in LOGS else found)) if found else math.nan

    found: dict[str, Outcome] = {}
    for number in (SCORE, RAW, *LOGS):
        key = f"log10_{number}" if number in LOGS else number.replace(" visible", "").replace(" absolute", "_raw")

        def gap(name: str, number: str = number) -> float:
            return at_best(name, "muon", number) - at_best(name, "adam", number)

        found |= over(names, gap, f"optimisers/{key}_muon_minus_adam", "log10" if number in LOGS else "share")
    return found


def _targets(table: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["target"]) for row in table))
