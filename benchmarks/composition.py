"""The runs of arXiv 2606.19941 that its claims here are judged by, on two processes of one thread. They can go on.

    python -m benchmarks.composition trap|trap-public|cuts|shapes|optimisers OUT [--genomes FOLDER]

OUT is a folder named like the run; ``monoseme reproduce composition`` reads it from its work folder. ``--genomes``, for
trap-public, is a folder with the public genomes (skull.zip, butterfly.zip, apple.zip) and
fer_params.npz of arXiv 2505.11581.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

from monoseme.learning import SweepProgress, process_pool, sweep
from monoseme.papers.composition.protocol import protocol
from monoseme.papers.composition.runs import RUNS, points, seeds, trial


def main() -> None:
    """Run what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("out")
    parser.add_argument("--genomes")
    asked = parser.parse_args()
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    with process_pool(2) as pool:
        result = sweep(
            trial(asked.run, asked.genomes),
            points(asked.run),
            asked.out,
            seeds=seeds(asked.run),
            executor=pool,
            about={"protocol": dict(protocol())},
            progress=tell,
        )
    print(f"{len(result.rows)} trials, {len(result.failures)} failed, {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
