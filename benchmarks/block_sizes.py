"""Block sizes at equal active dimensions on a real vision and a real text model, with controls. It can go on.

    python -m benchmarks.block_sizes vision|text OUT [--pictures FOLDER]

Harvests the model, and itself with random weights, into OUT/stores, then fits and measures every point on two processes
of one thread, into OUT/block-sizes-vision or OUT/block-sizes-text, and shows it in OUT/shown-vision or OUT/shown-text.
``monoseme reproduce bsf-blocks`` reads both sweeps from its work folder. FOLDER is where ``make pictures``
unpacked them.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

from monoseme.learning import SweepProgress, process_pool, sweep
from monoseme.papers.bsf.block_charts import write_block_pages
from monoseme.papers.bsf.block_sizes import PROTOCOL, measure, points
from monoseme.papers.optimality.real import SETTINGS, store
from monoseme.store import demo_pictures, python_topics


def main() -> None:
    """Harvest and run what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=[setting.name for setting in SETTINGS])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", default=".cache/pictures")
    asked = parser.parse_args()
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    setting = next(one for one in SETTINGS if one.name == asked.model)
    source = demo_pictures(asked.pictures, 224, 0) if asked.model == "vision" else python_topics()
    for weights in ("pretrained", "random"):
        made = store(setting, weights, source, asked.out / "stores")
        print(f"{time.perf_counter() - start:.0f} s: {len(made.rows('train')):,} rows of {weights} weights", flush=True)
    with process_pool(2) as pool:
        result = sweep(
            functools.partial(measure, stores=str(asked.out / "stores")),
            points(asked.model),
            asked.out / f"block-sizes-{asked.model}",
            executor=pool,
            about=PROTOCOL,
            progress=tell,
        )
    print(f"page: {write_block_pages(result, asked.model, asked.out / f'shown-{asked.model}')}")
    print(f"{len(result.rows)} trials, {len(result.failures)} failed, {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
