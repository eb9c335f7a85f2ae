"""Double descent of the toy at full size: 22 numbers of rows, 5 seeds, two processes of one thread each.

    python -m benchmarks.double_descent OUT [--step]

Started again, it goes on with what is left. ``--step`` only times a training step, beside the dense one.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

import torch

from monoseme.core.rows import DrawnRows
from monoseme.learning import SweepProgress, process_pool
from monoseme.papers.interaction.double_descent import Recipe, double_descent
from monoseme.papers.interaction.toy import Toy, dense, draw_rows


def steps(count: int, repeats: int = 20) -> tuple[float, float]:
    """Seconds of a step's batch, loss and gradient: as it is done, and on rows written out."""
    recipe, toy = Recipe(), Toy(Recipe().n, 0)
    size = recipe.config(count, 0).batch_size
    rows = draw_rows(count, recipe.n, recipe.kept, 0)
    kept, written = DrawnRows(rows), DrawnRows(dense(rows, recipe.n))
    best = [float("inf")] * 2
    for step in range(repeats):
        for which, take in enumerate((
            lambda: toy.loss(kept.batch(step, size, 0).x, step)[0],  # noqa: B023
            lambda: toy.dense_loss(written.batch(step, size, 0).x),  # noqa: B023
        )):  # fmt: skip
            start = time.perf_counter()
            take().backward()
            best[which] = min(best[which], time.perf_counter() - start)
    return best[0], best[1]


def main() -> None:
    """Run what is left, then print the table."""
    torch.set_num_threads(1)
    for count in (100, 2714, 40000):
        fast, slow = steps(count)
        trial = fast * Recipe().steps
        print(f"{count} rows: step {1e3 * fast:.2f} ms, dense {1e3 * slow:.2f} ms; {trial:.0f} s a trial", flush=True)
    if "--step" in sys.argv:
        return
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    with process_pool(2) as pool:
        found = double_descent(sys.argv[1], executor=pool, progress=tell)
    names = ("test_loss", "aofe_out", "ratio_out", "ratio_in", "pearson_out", "cosine_in", "cosine_root_in")
    print("rows ", *(f"{name:>24}" for name in names))
    for point in found.points:
        print(f"{point.settings['size']:>5}", *(f"{point.numbers[name]!s:>24}" for name in names))


if __name__ == "__main__":
    main()
