"""Steering SmolLM2-135M towards topics named beforehand, at equal KL: a block, a latent, means, chance. It can go on.

    python -m benchmarks.steer_text OUT

Harvests into OUT/stores and fits into OUT/text-fits, if they are not there; then a trial a topic into OUT/steered-text.
What is fixed stands in src/monoseme/papers/bsf/steering.toml.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

from monoseme.learning import SweepProgress, sweep
from monoseme.papers.bsf.steered_topics import featurizers, measure, points, protocol
from monoseme.papers.optimality.real import SETTINGS, store
from monoseme.store import python_topics

KINDS = ("block", "latent", "means", "random")


def main() -> None:
    """Run what is left, then print the table."""
    out, start = Path(sys.argv[1]), time.perf_counter()
    setting = next(one for one in SETTINGS if one.name == "text")
    featurizers(store(setting, "pretrained", python_topics(), out / "stores"), out / "text-fits")
    print(f"{time.perf_counter() - start:.0f} s: harvested and fitted", flush=True)

    def tell(p: SweepProgress) -> None:
        print(f"{time.perf_counter() - start:.0f} s: {p}", flush=True)

    about = {"protocol": dict(protocol())}
    result = sweep(
        functools.partial(measure, work=str(out)), points(), out / "steered-text", about=about, progress=tell
    )
    for row in result.rows:
        for kl in protocol()["kl"]:
            shifts = "; ".join(f"{kind} {row.numbers[f'{kind} {kl:g} shift']}" for kind in KINDS)
            print(f"{row.trial.settings['topic']} at {kl:g}: {shifts}")


if __name__ == "__main__":
    main()
