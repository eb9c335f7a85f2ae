"""What the claims about steering are judged by, read from finished sweeps: nothing here trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monoseme.core.outcome import Outcome
from monoseme.learning.numbers import as_outcome
from monoseme.papers.bsf.steered_topics import protocol
from monoseme.papers.finished import finished

__all__ = ["KINDS", "of_topics", "recipe"]

KINDS = ("block", "latent", "means", "random")
JUDGED_AT = 0.1  # nats of KL: the claims are about it
COMMAND = "python -m benchmarks.steer_text WORK"


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    result = finished(work, "steered-text", COMMAND)
    return of_topics({row.trial.settings["topic"]: row.numbers for row in result.rows}, protocol()["kl"])


def of_topics(topics: Mapping[str, Mapping[str, Any]], prices: Sequence[float]) -> dict[str, Outcome]:
    """Every topic at every price, and the block's least advantage over each other kind at the judged one."""
    found: dict[str, Outcome] = {}
    for topic, numbers in topics.items():
        for key in ("topical rows", "perplexity without"):
            found[f"text/{topic} {key}"] = as_outcome(key, numbers[key])
        for kind in KINDS:
            for price in prices:
                for what in ("shift", "off_target", "perplexity", "kl", "strength"):
                    found[f"text/{topic} {kind} {price:g} {what}"] = as_outcome(
                        what, numbers[f"{kind} {price:g} {what}"]
                    )
    for kind in KINDS[1:]:
        every = [as_outcome("difference", numbers[f"block - {kind} {JUDGED_AT:g}"]) for numbers in topics.values()]
        least = min(every, key=lambda one: float("inf") if one.low is None else one.low)
        found[f"text/least/{kind}"] = least
        found[f"text/least_low/{kind}"] = Outcome("least_low", least.low, least.unit, n=least.n, n_unit=least.n_unit)
    return found
