"""A full TopK training step against its encoder product alone, and against the same step by dense autograd.

One run, interleaved, so that a busy machine disturbs all three alike. Goals: step ≤ 2.6 × product, dense ≥ 2.2 × step.

    python -m benchmarks.step [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import Objective, TopK

ROWS, D_IN, LATENTS, K = 2048, 512, 8192, 32


def stepper(dense: bool) -> Callable[[], None]:
    """A training step as the loop takes it: loss, backward, fused Adam, constraint."""
    data = ArrayRows(torch.randn(2 * ROWS, D_IN, generator=generator(0)))
    featurizer = TopK(D_IN, LATENTS, k=K)
    featurizer.gate.mostly_on = dense  # the slow twin: codes with zeros written out, gradients by autograd
    objective = Objective(featurizer)
    objective.begin(data)
    optimiser = torch.optim.Adam(objective.parameters(), lr=1e-3, fused=True)
    steps = iter(range(10**9))

    def step() -> None:
        n = next(steps)
        loss, _ = objective.loss(data.batch(n, ROWS, 0).x, n)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        objective.after_step(n)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three repeats instead of fifteen")
    repeats = 3 if parser.parse_args().quick else 15

    x, weight = torch.randn(ROWS, D_IN, generator=generator(1)), torch.randn(LATENTS, D_IN, generator=generator(2))
    tasks = {"product": lambda: x @ weight.T, "step": stepper(dense=False), "dense": stepper(dense=True)}
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()  # compile, allocate
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)

    print(f"{ROWS} rows, d {D_IN}, {LATENTS} latents, k {K}; {torch.get_num_threads()} threads, {repeats} repeats")
    for name, times in seconds.items():
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"{name:<10} {middle * 1e3:7.1f} ms  (min {low * 1e3:.1f}, max {high * 1e3:.1f})")
    step = statistics.median(seconds["step"])
    print(f"step / product {step / statistics.median(seconds['product']):.2f}   (goal at most 2.6)")
    print(f"dense / step   {statistics.median(seconds['dense']) / step:.2f}   (goal at least 2.2)")


if __name__ == "__main__":
    main()
