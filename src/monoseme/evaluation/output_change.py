"""How much a model's output changed: sums for every group of samples, which add up in any order, and their numbers.

Three outputs are compared: *clean* (nothing replaced), *spliced* (reconstructions put back) and *ablated* (a constant
put back). Everything is summed in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.core.stats import ratio_intervals
from monoseme.evaluation.output_rows import Kind

__all__ = ["Change", "change_numbers", "merge_changes", "next_token_loss", "row_changes"]

LEAST = 1e-6  # nats a row, or share of the output's norm: what is less cannot be told from rounding in single precision
UNMOVED = "the baseline in their place does not change the output, so there is nothing to recover"
CHUNK = 1 << 23  # logits held in double precision at once


@dataclass(frozen=True, eq=False)
class Change:
    """Sufficient statistics of some samples.

    Attributes
    ----------
    kind
        What the output is, see `OutputRows`.
    group
        (s,) the groups (documents, pictures) the rows come from, ascending.
    sums
        (s,) each. ``rows``; then of a language model ``ce_clean``, ``ce_spliced``, ``ce_ablated``; of a classifier
        ``agree_spliced``, ``agree_ablated`` (rows whose largest logit stays the largest); of both ``kl_spliced``,
        ``kl_ablated``; otherwise ``square`` (Σ‖clean‖²), ``error_spliced``, ``error_ablated`` (Σ‖changed − clean‖²).
    """

    kind: Kind
    group: Int64[np.ndarray, " s"]
    sums: Mapping[str, Float64[np.ndarray, " s"]]


def row_changes(
    kind: Kind, clean: Float[Tensor, "n V"], changed: Float[Tensor, "n V"], targets: Int[Tensor, " n"] | None
) -> dict[str, Float64[Tensor, " n"]]:
    """What one changed output did to every row: ``ce`` and ``kl``, ``agree`` and ``kl``, or ``error``.

    Parameters
    ----------
    kind
        See `OutputRows`.
    clean, changed
        Logits, or any output.
    targets
        True next token of every row of a language model.
    """
    parts: list[dict[str, Tensor]] = []
    for rows in _chunks(clean):
        a, b = clean[rows].double(), changed[rows].double()
        if kind == "output":
            parts.append({"error": (a - b).square().sum(1)})
            continue
        part = {} if targets is not None else {"agree": (a.argmax(1) == b.argmax(1)).double()}
        a, b = a.log_softmax(1), b.log_softmax(1)
        part["kl"] = (a.exp() * (a - b)).sum(1)  # KL(clean ‖ changed)
        if targets is not None:
            part["ce"] = -b.gather(1, targets[rows, None])[:, 0]
        parts.append(part)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def next_token_loss(values: Float[Tensor, "n V"], targets: Int[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Cross-entropy of every row's true next token, in nats."""
    parts = [F.cross_entropy(values[rows].double(), targets[rows], reduction="none") for rows in _chunks(values)]
    return torch.cat(parts)


def _chunks(values: Float[Tensor, "n V"]) -> list[slice]:
    size = max(1, CHUNK // max(values.shape[1], 1))
    return [slice(start, start + size) for start in range(0, max(len(values), 1), size)]


def merge_changes(changes: Sequence[Change]) -> Change:
    """Statistics of all samples together, however they were batched; groups without a row are left out."""
    group, of_entry = np.unique(np.concatenate([change.group for change in changes]), return_inverse=True)
    sums = {
        name: np.bincount(of_entry, np.concatenate([change.sums[name] for change in changes]), len(group))
        for name in changes[0].sums
    }
    some = sums["rows"] > 0
    return Change(changes[0].kind, group[some], {name: values[some] for name, values in sums.items()})


@dataclass(frozen=True, eq=False)
class Ratio:
    """A number that is Σ top ÷ Σ bottom over groups, and unknown, for the reason `nothing`, when Σ bottom ≤ `least`."""

    name: str
    unit: str
    better: Literal["lower", "higher"] | None
    top: Float64[np.ndarray, " s"]
    bottom: Float64[np.ndarray, " s"]
    note: str
    least: float = 0.0
    nothing: str = ""


def change_numbers(change: Change, samples: str = "samples", seed: int = 0) -> dict[str, Outcome]:
    """Numbers of some statistics; `splice` says what they mean.

    A recovered share is a ratio of two sums over the same groups, so its interval resamples groups and takes the ratio
    anew in every draw. Where draws reach a denominator ≤ 0, no finite interval holds the share, and none is given.
    """
    sums, rows = change.sums, change.sums["rows"]
    inputs = plural(int(rows.sum()), "tokens" if change.kind == "language" else "inputs")
    over = f"{int(rows.sum())} {inputs} of {len(rows)} {plural(len(rows), samples)}"
    ratios = {"language": _language, "classifier": _classifier, "output": _output}[change.kind](sums, over)
    # second half: is the denominator itself clearly above zero?
    top = np.stack([ratio.top for ratio in ratios] + [ratio.bottom for ratio in ratios], 1)
    bottom = np.stack([ratio.bottom for ratio in ratios] + [rows for _ in ratios], 1)
    low, high = ratio_intervals(top, bottom, seed=seed)
    bounded = np.isfinite(low) & np.isfinite(high) & (np.tile(low[len(ratios) :], 2) > 0)
    ends = [(float(low[i]), float(high[i])) if bounded[i] else (None, None) for i in range(len(ratios))]
    return {ratio.name: _outcome(ratio, ends[i], len(rows), samples) for i, ratio in enumerate(ratios)}


def _outcome(ratio: Ratio, ends: tuple[float | None, float | None], n: int, samples: str) -> Outcome:
    top, bottom = float(ratio.top.sum()), float(ratio.bottom.sum())
    if not np.isfinite([top, bottom]).all():
        return unknown(ratio.name, ratio.unit, "the model's output is not finite")
    if bottom <= ratio.least:
        return unknown(ratio.name, ratio.unit, ratio.nothing)
    value = top / bottom
    return Outcome(ratio.name, value, ratio.unit, *ends, better=ratio.better, n=n, n_unit=samples, note=ratio.note)


def _language(sums: Mapping[str, Float64[np.ndarray, " s"]], over: str) -> list[Ratio]:
    clean, spliced, ablated, rows = (sums[name] for name in ("ce_clean", "ce_spliced", "ce_ablated", "rows"))
    count, unit, note = rows.sum(), "nats/token", "(ablated − spliced) ÷ (ablated − clean)"
    losses = (
        f"the loss of the ablated model, {ablated.sum() / count:.6g}, is not above {clean.sum() / count:.6g}, its own"
    )
    return [
        Ratio("ce_clean", unit, None, clean, rows, f"cross-entropy of the next token; {over}"),
        Ratio("ce_spliced", unit, "lower", spliced, rows, "with reconstructions put back"),
        Ratio("ce_ablated", unit, None, ablated, rows, "with the baseline put back"),
        Ratio("ce_recovered", "1", "higher", ablated - spliced, ablated - clean, note, LEAST * count, losses),
        *_divergence(sums, unit, over),
    ]


def _classifier(sums: Mapping[str, Float64[np.ndarray, " s"]], over: str) -> list[Ratio]:
    spliced, ablated, rows = sums["agree_spliced"], sums["agree_ablated"], sums["rows"]
    return [
        Ratio("agreement", "share", "higher", spliced, rows, f"the most likely class stays; {over}"),
        Ratio("agreement_ablated", "share", None, ablated, rows, "with the baseline put back"),
        *_divergence(sums, "nats/input", over),
    ]


def _divergence(sums: Mapping[str, Float64[np.ndarray, " s"]], unit: str, over: str) -> list[Ratio]:
    spliced, ablated, rows = sums["kl_spliced"], sums["kl_ablated"], sums["rows"]
    note = "1 − KL(clean ‖ spliced) ÷ KL(clean ‖ ablated)"
    return [
        Ratio("kl", unit, "lower", spliced, rows, f"KL(clean ‖ spliced); {over}"),
        Ratio("kl_recovered", "1", "higher", ablated - spliced, ablated, note, LEAST * rows.sum(), UNMOVED),
    ]


def _output(sums: Mapping[str, Float64[np.ndarray, " s"]], over: str) -> list[Ratio]:
    spliced, ablated = sums["error_spliced"], sums["error_ablated"]
    note = f"1 − Σ‖spliced − clean‖² ÷ Σ‖ablated − clean‖² of the module's own output; {over}"
    least = LEAST**2 * sums["square"].sum()
    return [Ratio("output_recovered", "1", "higher", ablated - spliced, ablated, note, least, UNMOVED)]
