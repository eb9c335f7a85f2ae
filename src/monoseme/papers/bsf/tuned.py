"""A fit that chooses its own learning rate: blocks, latents and controls are tuned alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from monoseme.core.rows import RowSource
from monoseme.evaluation import evaluate
from monoseme.featurizers import Featurizer, fit

__all__ = ["BATCH", "PILOT", "RATES", "STEPS", "tuned"]

RATES = (3e-3, 1e-2, 3e-2)
STEPS, PILOT, BATCH = 480, 80, 2048


def tuned(
    make: Callable[[], Featurizer],
    train: RowSource,
    held: RowSource,
    out: Path | None,
    steps: int = STEPS,
    seed: int = 0,
) -> tuple[Featurizer, float, float]:
    """Fit at the rate with the least FVU on held-out rows after a short fit.

    Returns
    -------
    tuple
        The featurizer, its rate, and by how much the FVU of the next best rate's short fit was worse.
    """
    options: dict[str, Any] = {"batch_size": BATCH, "aux": "dead", "seed": seed}
    losses = {}
    for rate in RATES:
        tried = make()
        fit(tried, train, steps=PILOT, lr=rate, **options)
        fvu = evaluate(tried, held)["fvu"].value
        losses[rate] = float("inf") if fvu is None else fvu
    order = sorted(losses, key=lambda rate: losses[rate])
    featurizer = make()
    fit(featurizer, train, steps=steps, lr=order[0], out=out, **options)
    return featurizer, order[0], losses[order[1]] - losses[order[0]]
