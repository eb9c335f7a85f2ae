"""What the claims are judged by, read from finished sweeps: nothing here trains, so it can be run again at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import mean_of
from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.compare import INTERVAL, compare_models, small_llms
from monoseme.interaction.correlation import correlations
from monoseme.interaction.optimum import Optimum
from monoseme.interaction.regimes import peak, regimes
from monoseme.papers.interaction.finished import COMMANDS, ENERGY, LOSS, RATIO, SIZE, column, shape_table, sweep_table
from monoseme.papers.interaction.law import law

__all__ = ["inside", "recipe"]

STATED_PEAK, FEATURES, FEW = 1.534, 1900.0, 50.0  # test loss; T from which on features form; T up to which none does
SMALLEST = 1e6  # parameters: the law's interval is stated from here on
LLMS = ("Qwen2.5 report base", "Qwen3 report base", "SmolLM2 card base")  # the first that has a model gives its score


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    makers: dict[str, Callable[[Path], dict[str, Outcome]]] = {
        **dict.fromkeys(("law-rise", "law-energy", "law-plane"), lambda work: law(shape_table(work, "gpt"))),
        **dict.fromkeys(("descent-peak", "descent-energy", "descent-plateau", "descent-regimes"), _descent),
        **dict.fromkeys(("optimum", "optimum-stable"), _optimum),
        "cnn": lambda work: _network(work, "cnn"),
        "vit": lambda work: _network(work, "vit"),
        "gru": lambda work: _network(work, "gru"),
        "small-llms": lambda work: _models(),
    }
    return {name: outcome for claim in wanted for name, outcome in makers[claim](work).items()}


def _descent(work: Path) -> dict[str, Outcome]:
    table = sweep_table(work, "double-descent")
    size, loss, ratio = (column(table, name) for name in (SIZE, LOSS, RATIO))
    energy, inner = column(table, "aofe_out"), column(table, "ratio_in")
    at, values = peak(size, loss)
    top, energies = mean_of(values), mean_of(np.log10(energy[size == at]))
    away = abs(top.value - STATED_PEAK) / top.standard_error
    low, high = regimes(size, loss, ratio)
    plateau = mean_of([loss[size == t].mean() for t in np.unique(size[size >= FEATURES])])
    few, many = (ratio[mine] for mine in (size <= FEW, size >= FEATURES))
    found = {
        "peak_loss": Outcome("loss", top.value, "1", top.low, top.high, better="lower", n=top.n, n_unit="seeds"),
        "peak_size": Outcome("size", at, "rows"),
        "peak_standard_errors": Outcome("standard_errors", away, "1", note=f"of our mean from {STATED_PEAK}"),
        "peak_log10_aofe": Outcome("log10_aofe", energies.value, "1", energies.low, energies.high, n=energies.n),
        "aofe_peak_size": Outcome("size", peak(size, energy)[0], "rows"),
        "plateau": Outcome("loss", plateau.value, "1", plateau.low, plateau.high, n=plateau.n, n_unit="sizes"),
        "memorising_pearson": low.pearson,
        "beyond_pearson": high.pearson,
        "ratio_memorising": Outcome("ratio", float(few.mean()), "1", note=f"T at most {FEW:g}, output side"),
        "ratio_features": Outcome("ratio", float(many.mean()), "1", note=f"T at least {FEATURES:g}, output side"),
        "ratio_in_memorising": Outcome("ratio", float(inner[size <= FEW].mean()), "1", note="input side"),
        "ratio_in_features": Outcome("ratio", float(inner[size >= FEATURES].mean()), "1", note="input side"),
    }
    return {f"descent/{name}": outcome for name, outcome in found.items()}


def _network(work: Path, name: str) -> dict[str, Outcome]:
    table = shape_table(work, name)
    numbers = {RATIO: "", "ratio_in": "ratio_in_", f"log10 {ENERGY}": "energy_"}
    there = [number for number in numbers if number.removeprefix("log10 ") in table.numbers]
    if RATIO not in there:
        raise refuse("sweep", f"measure {RATIO}", ", ".join(table.numbers), f"Run {COMMANDS[name]} again.")
    scope = "within" if len(table.budgets) > 1 else "budget"
    found: dict[str, Outcome] = {}
    for c in correlations(table, there, LOSS):
        if c.scope == scope:
            key = f"{name}/{numbers[c.number]}"
            found |= {f"{key}pearson": c.pearson, f"{key}spearman": c.spearman}
    return found | {f"{name}/pearson_high": upper(found[f"{name}/pearson"])}


def upper(outcome: Outcome) -> Outcome:
    """Return the upper end of an outcome's interval as an outcome, for rules about it."""
    if outcome.high is None:
        return unknown(f"{outcome.name}_high", outcome.unit, outcome.note)
    return replace(outcome, name=f"{outcome.name}_high", value=outcome.high, low=None, high=None)


def _optimum(work: Path) -> dict[str, Outcome]:
    table = shape_table(work, "gpt-paper")
    large = table.where(table.budget >= SMALLEST)
    if not large.budgets:
        got = f"a largest of {max(table.budgets):,.0f}"
        raise refuse("sweep", "have budgets of at least 1M parameters", got, f"Run {COMMANDS['gpt-paper']}.")
    found = optima(large, LOSS)
    each = {f"optimum/{budget:.0f}": best.fitted for budget, best in found.items()}
    return {"optimum/inside_share": inside(list(found.values())), "optimum/slope": stability(found), **each}


def inside(found: Sequence[Optimum], whole: bool = False) -> Outcome:
    """Share of budgets whose optimum (its whole interval) lies in the law's; one at the edge of its shapes does not."""
    hits = []
    for best in found:
        ends = (best.fitted.low, best.fitted.high) if whole else (best.fitted.value, best.fitted.value)
        hits.append(all(end is not None and INTERVAL[0] <= end <= INTERVAL[1] for end in ends))
    name = "interval_inside_share" if whole else "inside_share"
    return Outcome(name, float(np.mean(hits)), "share", n=len(hits), n_unit="budgets")


def _models() -> dict[str, Outcome]:
    chosen = {}
    for protocol in LLMS:
        for row in small_llms():
            if row.protocol == protocol:
                chosen.setdefault(row.model, row)
    groups = {group.name: group for group in compare_models(list(chosen.values()), mixed=True)}
    found = {f"llm/{outcome.name}": outcome for outcome in groups["1 to 2.5B"].outcomes()}
    note = f"; mixed protocols, {', '.join(row.model for row in groups['1 to 2.5B'].rows)}"
    return {name: replace(outcome, note=outcome.note + note) for name, outcome in found.items()} | {
        "llm/all_pearson": groups["all"].pearson
    }
