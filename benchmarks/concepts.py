"""What can be read off blocks and latents of DINOv2-S: classes, masks, depth and light. It can go on.

    python -m benchmarks.concepts OUT [--pictures FOLDER]

Renders and harvests into OUT/stores, then a trial a kind and seed into OUT/concepts, which ``monoseme reproduce
bsf-concepts`` reads from its work folder. FOLDER is where ``make pictures`` unpacked the cut-outs.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

import numpy as np

from monoseme.learning import SweepProgress, process_pool, sweep
from monoseme.models import open_model
from monoseme.papers.bsf.concept_data import pictures
from monoseme.papers.bsf.concepts import AT, MODEL, PROTOCOL, measure, points
from monoseme.store import harvest


def main() -> None:
    """Harvest and run what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", default=".cache/pictures")
    asked = parser.parse_args()
    start = time.perf_counter()
    stores = asked.out / "stores"
    stores.mkdir(parents=True, exist_ok=True)

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    source = pictures(asked.pictures)
    for weights in ("pretrained", "random"):
        made = harvest(open_model(MODEL, weights=weights), source, AT, stores / f"concepts-{weights}")
        print(f"{time.perf_counter() - start:.0f} s: {len(made.rows('train')):,} rows of {weights} weights", flush=True)
    ids = [entry.id for entry in source.entries]
    if not (stores / "patches.npz").exists():
        np.savez(stores / "patches.npz", allow_pickle=False, ids=np.array(ids), **source.patches())
    fn = functools.partial(measure, stores=str(stores))
    with process_pool(2) as pool:
        result = sweep(fn, points(), asked.out / "concepts", executor=pool, about=PROTOCOL, progress=tell)
    print(f"{len(result.rows)} trials, {len(result.failures)} failed, {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
