"""Pictures with one weight moved, the short way and the long way, on a dense and on layerised networks of the same run.

    python -m benchmarks.emc2 [SIZE] [--score]

With ``--score`` all weights of the dense one, trained on the face for 200 steps, are scored by deep features as well.

The dense one is as large as the skull's of arXiv 2505.11581: 22 neurons, 12 hidden layers, 5,478 weights. A sample of
the weights is rendered; times are for all of them.
"""

from __future__ import annotations

import sys
import time

import torch

from monoseme.composition.emc2 import emc2
from monoseme.composition.incremental import Move, Rendering, naive
from monoseme.composition.judges import FeatureJudge
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.painting import fit_image
from monoseme.composition.scenes import SCENES, scene
from monoseme.core.seeds import rng

BANK = ["identity"] * 15 + ["gaussian"] * 4 + ["identity"] * 2 + ["sin"]
SHARE = 300  # weights rendered the short way
FEW = 40  # and the long way


def measure(name: str, net: ImageNetwork, size: int) -> None:
    """Time both ways, and print."""
    entries = net.entries()
    order = rng(0, "weights").permutation(len(entries))
    # whole groups with one target belong together: that is how all weights are done
    targets = list(dict.fromkeys(entries[i][:2] for i in order))
    chosen: list[Move] = []
    for target in targets:
        if len(chosen) >= SHARE:
            break
        chosen += [Move(*entry, 0.5) for entry in entries if entry[:2] == target]
    start = time.perf_counter()
    rendering = Rendering(net, size)
    quick = {move: picture for move, picture in rendering.moved(chosen)}
    short = (time.perf_counter() - start) / len(chosen)
    few = chosen[:: max(1, len(chosen) // FEW)]
    start = time.perf_counter()
    slow = {move: naive(net, move, size) for move in few}
    long = (time.perf_counter() - start) / len(few)
    worst = max(float((quick[move] - slow[move]).abs().max()) for move in few)
    print(f"{name:<22} {len(entries):>6} weights: {1e3 * long:7.2f} ms naive, {1e3 * short:7.2f} ms here, "
          f"{long / short:5.1f} x; all of them {short * len(entries):6.1f} s; largest difference {worst:.0e}",
          flush=True)  # fmt: skip


def main() -> None:
    """Measure every network."""
    words = [word for word in sys.argv[1:] if word != "--score"]
    size = int(words[0]) if words else 128
    print(f"{torch.get_num_threads()} threads, {size} x {size} pixels, float32")
    measure("dense", ImageNetwork.dense(22, 12, BANK), size)
    for name in SCENES:
        measure(f"layerised {name}", layerize(scene(name)), size)
    if "--score" in sys.argv:
        score(size)


def score(size: int) -> None:
    """Score every weight of a skull-sized dense network, and print the time."""
    face = layerize(scene("face")).render(size)
    judge = FeatureJudge(face, [layerize(scene(name)).render(size) for name in SCENES if name != "face"])
    net = ImageNetwork.dense(22, 12, BANK)
    fit_image(net, layerize(scene("face")).render(48), steps=200, lr=0.02, optimiser="muon")
    start = time.perf_counter()
    found = emc2(net, judge, 0.5, size=size)
    print(f"{len(found.per_weight)} weights scored in {time.perf_counter() - start:.0f} s: {found.score}", flush=True)


if __name__ == "__main__":
    main()
