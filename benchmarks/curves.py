"""Neurons, SAE latents and blocks of EfficientNet-Lite0 along 1,800 drawn curves, and gratings. It can go on.

    python -m benchmarks.curves OUT [--pictures FOLDER]

Harvests into OUT/stores, then a trial a network and seed into OUT/curves. FOLDER is where ``make pictures`` unpacked
them.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

from monoseme.cli.pictures import thinned
from monoseme.learning import SweepProgress, process_pool, sweep
from monoseme.models import open_model
from monoseme.papers.bsf.curves import ACTIVE, AT, DIRECTIONS, MODEL, measure, points
from monoseme.store import demo_pictures, harvest

PICTURES = 240


def main() -> None:
    """Harvest and run what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", default=".cache/pictures")
    asked = parser.parse_args()
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    source = thinned(demo_pictures(asked.pictures, 224, 0), PICTURES)
    for weights in ("pretrained", "random"):
        made = harvest(open_model(MODEL, weights=weights), source, AT, asked.out / "stores" / f"curves-{weights}")
        print(f"{time.perf_counter() - start:.0f} s: {len(made.rows('train')):,} rows of {weights} weights", flush=True)
    about = {"at": AT, "active": ACTIVE, "directions": DIRECTIONS, "pictures": PICTURES}
    fn = functools.partial(measure, stores=str(asked.out / "stores"))
    with process_pool(2) as pool:
        result = sweep(fn, points(), asked.out / "curves", executor=pool, about=about, progress=tell)
    print(f"{len(result.rows)} trials, {len(result.failures)} failed, {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
