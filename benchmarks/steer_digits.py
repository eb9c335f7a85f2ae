"""Steering a small diffusion model of digits (a stand-in): a block, an SAE's latent and random directions.

    python -m benchmarks.steer_digits OUT [--steps 3000]

Each pushes as far as moves the target attribute by the same amount; printed is what else moves, in deviations of each
other attribute, with 95 % intervals over pictures, and the paired difference to the block. Started again, it goes on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.core.stats import mean_of
from monoseme.featurizers import FitResult, Grassmannian, TopK, fit
from monoseme.papers.bsf import digit_steering as d
from monoseme.steering import matched_strength

WANTED = {"rotation": 0.12, "thickness": 0.03, "hue": 0.06}  # mean change of the target, fixed beforehand
SCALE = {"rotation": 1.2 / 12**0.5, "thickness": 0.22 / 12**0.5, "hue": 1 / 12**0.5}  # deviations of what was planted
CHOOSE, TUNE, JUDGE = 300, 64, 200  # pictures
RANDOM = 3


def featurizers(out: Path, rows: torch.Tensor) -> dict[str, FitResult]:
    """Blocks and latents with equal active dimensions and directions."""
    width = rows.shape[1]
    made = {"block": Grassmannian(width, 96, 3, k=4), "latent": TopK(width, 288, k=12)}
    config: dict[str, Any] = {"steps": 2000, "batch_size": 2048, "lr": 3e-3}
    return {name: fit(f, ArrayRows(rows), out=out / name, **config) for name, f in made.items()}


def main() -> None:
    """Train, fit, push, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    asked = parser.parse_args()
    start = time.perf_counter()
    model = d.trained(asked.out / "model", asked.steps)
    acts, made = d.harvested(model, CHOOSE, seed=1)
    print(f"{time.perf_counter() - start:.0f} s: model trained, {acts.numel() // acts.shape[-1]:,} rows", flush=True)
    values = d.read(made, 1)
    fitted = featurizers(asked.out, acts.flatten(0, 2))
    print(f"{time.perf_counter() - start:.0f} s: featurizers fitted", flush=True)
    before = {seed: d.read(d.pictures(model, n, seed), seed) for seed, n in ((2, TUNE), (3, JUDGE))}
    for attribute in d.ATTRIBUTES:
        pushes = [
            d.best_block(one.featurizer, acts, d.targets(values, attribute), name) for name, one in fitted.items()
        ]
        for i in range(RANDOM):
            v = torch.randn(acts.shape[-1], generator=generator(i, "random direction"), dtype=torch.float64)
            pushes.append(d.Push(f"random {i}", v / v.norm(), float("nan")))
        report(model, attribute, pushes, before)


def report(model: object, attribute: str, pushes: list[d.Push], before: dict[int, dict[str, np.ndarray]]) -> None:
    """Match, judge, and print one attribute."""
    print(f"{attribute}: moved by {WANTED[attribute]:g}")
    own: np.ndarray | None = None
    for push in pushes:

        def price(strength: float, push: d.Push = push) -> float:
            after = d.moved(model, push, strength, TUNE, 2)  # pyright: ignore[reportArgumentType]
            return float(np.nanmean(d.change(before[2], after, attribute)))

        try:
            strength, reached = matched_strength(price, WANTED[attribute], most=64)
        except UserError:
            print(f"  {push.name:<9} never moves it so far")
            continue
        after = d.moved(model, push, strength, JUDGE, 3)  # pyright: ignore[reportArgumentType]
        target = float(np.nanmean(d.change(before[3], after, attribute)))
        others = [name for name in d.ATTRIBUTES if name != attribute]
        off = np.nansum([d.change(before[3], after, name) / SCALE[name] for name in others], axis=0)
        mean = mean_of(off)
        line = (
            f"  {push.name:<9} unit {push.unit:>3}, R2 {push.r2:5.2f}, strength {strength:6.2f}: target {target:.3f} "
        )
        line += f"({reached:.3f} where tuned), off target {mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
        if own is None:
            own = off
        else:
            more = mean_of(off - own)
            line += f", {more.value:+.3f} [{more.low:+.3f}, {more.high:+.3f}] to the block"
        print(line, flush=True)


if __name__ == "__main__":
    main()
