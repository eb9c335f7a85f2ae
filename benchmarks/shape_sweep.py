"""Shape sweeps under a parameter budget, on two processes of one thread each. Started again, they go on.

    python -m benchmarks.shape_sweep gpt|cnn|vit|gru OUT [--dry-run]
    python -m benchmarks.shape_sweep gpt OUT --paper-size FOLDER_OF_WIKITEXT_103 [--dry-run]

``--dry-run`` lists the shapes and the time that training would take here, and trains nothing.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, and by the workers

import torch

from monoseme.api.shape_charts import describe_shapes, shapes_page
from monoseme.interaction import ShapeTable, correlations, optima
from monoseme.interaction.sweeping import hours, shape_sweep
from monoseme.learning import SweepProgress, SweepResult, process_pool
from monoseme.papers.interaction.sweeps import SWEEPS, Sweep, paper_size


def plan(sweep: Sweep, timed: bool) -> None:
    """Print the shapes, and what training them takes."""
    rows = sweep.rows()
    print(f"{'budget':>10} {'depth':>5} {'width':>5} {'parameters':>10} {'R':>7} {'unused':>6}")
    for row in rows:
        shape = f"{row.depth:>5} {row.width:>5} {row.parameters:>10,} {row.ratio:7.4f} {row.unused:6.1%}"
        print(f"{row.budget:>10,} {shape}")
    print(f"{len(rows)} shapes x {len(sweep.seeds)} seeds", flush=True)
    if timed:
        took = hours(sweep.plan, rows, len(sweep.seeds))
        print(f"training: about {60 * took:.0f} core minutes here, {30 * took:.0f} minutes on two cores", flush=True)


def report(result: SweepResult, minutes: float) -> None:
    """Print every shape's means, the optimum of every budget, and how loss and energies go together."""
    table = ShapeTable.from_sweep(result)
    names = ("test_loss", "ratio_out", "normalised_aofe_out", "excess_out")
    for point in result.points:
        shape = " ".join(f"{point.settings[name]:>8}" for name in ("budget", "depth", "width"))
        print(shape, *(f"{point.numbers[name]!s:>28}" for name in names))
    for budget, best in optima(table).items():
        print(f"{budget:,.0f}:", *(f"{one.name} {one}" for one in best.outcomes()), sep="\n    ")
    for one in correlations(table, ("ratio_out", "log10 normalised_aofe_out", "log10 aofe_out")):
        where = one.scope if one.budget is None else f"{one.budget:,.0f}"
        print(f"test_loss against {one.number}, {where}: Pearson {one.pearson}, Spearman {one.spearman}")
    cpu = sum(table.column("cpu_seconds_training") + table.column("cpu_seconds_energies")) / 60
    cost = f"{cpu:.0f} CPU minutes, {cpu / 2:.0f} on two cores"
    print(f"{len(result.rows)} trials, {cost}; this call {minutes:.0f} minutes")


def main() -> None:
    """Run what is left, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=sorted(SWEEPS))
    parser.add_argument("out")
    parser.add_argument("--paper-size", metavar="FOLDER")
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    if asked.paper_size and asked.family != "gpt":
        parser.error("--paper-size is known for gpt only")
    torch.set_num_threads(1)
    sweep = paper_size(asked.paper_size) if asked.paper_size else SWEEPS[asked.family]()
    plan(sweep, timed=not asked.paper_size)
    if asked.dry_run:
        return
    start = time.perf_counter()

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    with process_pool(2) as pool:
        found = shape_sweep(sweep.plan, sweep.rows(), asked.out, seeds=sweep.seeds, executor=pool, progress=tell)
    report(found, (time.perf_counter() - start) / 60)
    table = ShapeTable.from_sweep(found)
    pages = shapes_page(describe_shapes(table, title=f"Shapes of {asked.family}"), f"{asked.out}/page")
    print(f"page  {pages}")


if __name__ == "__main__":
    main()
