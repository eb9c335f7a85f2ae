"""Steering a small diffusion model of digits (a stand-in): blocks, an SAE's latents, random directions. It can go on.

    python -m benchmarks.steer_digits OUT [--steps 3000]

Trains the model into OUT/model, then a trial an attribute and seed of the fits into OUT/steered-digits, which
``monoseme reproduce bsf-digits`` reads from its work folder, and shows film strips in OUT/shown-digits.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

from monoseme.learning import SweepProgress, process_pool, sweep
from monoseme.papers.bsf.digit_films import write_digit_pages
from monoseme.papers.bsf.digit_steering import trained
from monoseme.papers.bsf.walked_digits import measure, points, protocol


def main() -> None:
    """Train, and run what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    asked = parser.parse_args()
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    trained(asked.out / "model", asked.steps)
    print(f"{time.perf_counter() - start:.0f} s: model trained", flush=True)
    about = {**protocol(), "steps": asked.steps}
    fn = functools.partial(measure, work=str(asked.out))
    with process_pool(2) as pool:
        result = sweep(fn, points(), asked.out / "steered-digits", executor=pool, about=about, progress=tell)
    print(f"page: {write_digit_pages(result, asked.out / 'shown-digits')}")
    print(f"{len(result.rows)} trials, {len(result.failures)} failed, {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
