"""Pictures with one weight moved, the short way and the long way, on a dense and on layerised networks of the same run.

    python -m benchmarks.emc2 [SIZE]

The dense one is as large as the skull's of arXiv 2505.11581: 22 neurons, 12 hidden layers, 5,478 weights. A sample of
the weights is rendered; times are for all of them.
"""

from __future__ import annotations

import sys
import time

import torch

from monoseme.composition.incremental import Move, Rendering, naive
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
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
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    print(f"{torch.get_num_threads()} threads, {size} x {size} pixels, float32")
    measure("dense", ImageNetwork.dense(22, 12, BANK), size)
    for name in SCENES:
        measure(f"layerised {name}", layerize(scene(name)), size)


if __name__ == "__main__":
    main()
