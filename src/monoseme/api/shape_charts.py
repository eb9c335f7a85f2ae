"""Charts of a shape sweep as the page contract wants them: points with intervals over seeds, tables, one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import mean_of
from monoseme.explorer.static import write_pages
from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.compare import INTERVAL, GroupComparison
from monoseme.interaction.correlation import Correlation, correlations
from monoseme.interaction.optimum import Optimum
from monoseme.interaction.shape_table import ShapeTable
from monoseme.records import Comparison, OutcomeGroup, RunRecord, Scatter, ScatterPoint

__all__ = [
    "against_ratio",
    "correlation_table",
    "describe_shapes",
    "model_table",
    "models_chart",
    "optima_chart",
    "optima_table",
    "plane",
    "shapes_page",
]

# what a trial took, which says nothing of the network
BOOKS = ("parameters", "flops", "steps", "cpu_seconds_training", "cpu_seconds_energies")


def _size(budget: float) -> str:
    """Write a parameter count as people do: 60k, 1.3M."""
    for unit, word in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if budget >= unit:
            return f"{budget / unit:.3g}{word}"
    return f"{budget:.0f}"


def _point(part: ShapeTable, numbers: Sequence[str], series: str, strand: str) -> ScatterPoint:
    """One shape: means over its seeds with Student's t interval; R itself has none."""
    depth, width, ratio = float(part.depth[0]), float(part.width[0]), float(part.ratio[0])
    columns = [part.column(name) for name in numbers]
    whole = np.isfinite(np.stack(columns)).all(0)
    seeds = tuple(tuple(column[whole].tolist()) for column in columns)
    return ScatterPoint(
        series=series,
        label=f"{depth:.0f} × {width:.0f} at {_size(float(part.budget[0]))}",
        values=(Outcome("R", ratio, "1"), *(_over_seeds(n, c) for n, c in zip(numbers, columns, strict=True))),
        strand=strand,
        seeds=((ratio,) * int(whole.sum()), *seeds) if whole.sum() > 1 else (),
    )


def _over_seeds(name: str, values: np.ndarray) -> Outcome:
    m, better = mean_of(values[np.isfinite(values)]), "lower" if name.endswith("loss") else None
    if m.n == 0:
        return unknown(name, "1", "not computed")
    low, high = (m.low, m.high) if m.n > 1 else (None, None)
    return Outcome(name, m.value, "1", low, high, better=better, n=m.n, n_unit="seeds")


def _shapes(table: ShapeTable) -> list[ShapeTable]:
    """The rows of every shape, by budget and then by R."""
    keys = dict.fromkeys(sorted(zip(table.budget, table.ratio, table.depth, table.width, strict=True)))
    return [table.where((table.budget == b) & (table.depth == d) & (table.width == w)) for b, _, d, w in keys]


def against_ratio(table: ShapeTable, numbers: Sequence[str]) -> Scatter:
    """Draw any of `numbers` against R = depth / width, a colour and a line a budget; the first one to begin with."""
    points = [_point(part, numbers, _size(float(part.budget[0])), "shapes") for part in _shapes(table)]
    note = "A mark is the mean over seeds, its whiskers the 95 % interval over seeds; small rings are single seeds."
    return Scatter("Along R = depth ÷ width", ("R", *numbers), tuple(points), "R", numbers[0], note)


def plane(
    table: ShapeTable, ratio: str, log_energy: str, interval: tuple[float, float] = INTERVAL, loss: str = "test_loss"
) -> Scatter:
    """Draw the AOFE-ratio against log AOFE, coloured by R: below, inside and above an interval."""
    names = [f"R below {interval[0]:g}", f"R {interval[0]:g} to {interval[1]:g}", f"R above {interval[1]:g}"]
    points = []
    for part in _shapes(table):
        r = float(part.ratio[0])
        group = names[int(r >= interval[0]) + int(r > interval[1])]
        points.append(_point(part, (log_energy, ratio, loss), group, ""))
    points.sort(key=lambda point: names.index(point.series))
    note = "Every shape of every budget, coloured by R. Whiskers are 95 % intervals over seeds."
    return Scatter("Ratio against energy", ("R", log_energy, ratio, loss), tuple(points), log_energy, ratio, note)


def optima_chart(found: Mapping[float, Optimum]) -> Scatter:
    """Draw the best R of each budget with its interval: of the fit, and the lowest of the grid."""
    points = []
    for series in ("fit", "lowest shape tested"):
        for budget, best in sorted(found.items()):
            outcome = best.fitted if series == "fit" else best.best
            values = (Outcome("budget", budget, "parameters"), outcome, best.basin_low, best.basin_high)
            points.append(ScatterPoint(series, f"{_size(budget)}: R {outcome}", values, series))
    columns = ("budget", "best R", "smallest R within 1 %", "largest R within 1 %")
    note = "Whiskers are 95 % intervals. A budget whose fit falls beyond the shapes tested has no mark of the fit."
    return Scatter("The best shape of each budget", columns, tuple(points), "budget", "best R", note)


def optima_table(found: Mapping[float, Optimum]) -> Comparison:
    """List the best R of each budget, how it was found, and the basin that is flat within 1 %."""
    rows = tuple(
        (_size(budget), *best.outcomes(), best.fitted.note.partition("open: ")[2].removesuffix(" the tested range"))
        for budget, best in sorted(found.items())
    )
    columns = ("budget", "best R, fit", "lowest shape tested", "smallest R within 1 %", "largest R within 1 %", "open")
    note = "95 % intervals; where one is open, that share of resamples lies outside the shapes tested."
    return Comparison("The best shape of each budget", columns, rows, note)


def correlation_table(found: Sequence[Correlation]) -> Comparison:
    """List correlations of the loss with numbers, over the shapes of each budget, pooled, and within budgets."""
    rows = tuple(
        (c.number, _size(c.budget) if c.budget is not None else f"{c.scope} budgets", c.pearson, c.spearman)
        for c in found
    )
    note = (
        "Over shapes, means of their seeds; 95 % bootstrap intervals over shapes. Within: each budget's mean taken off."
    )
    return Comparison("What goes with the loss", ("number", "shapes of", "Pearson", "Spearman"), rows, note)


def models_chart(group: GroupComparison) -> Scatter:
    """Draw the scores of one group of models against the distance of their R to the interval, a colour a protocol."""
    points = tuple(
        ScatterPoint(
            row.protocol,
            row.model,
            (
                Outcome("distance", away, "1"),
                Outcome("score", row.score, "1", better="higher"),
                Outcome("R", row.ratio, "1"),
                Outcome("size", row.params_b, "10⁹ parameters"),
            ),
        )
        for row, away in zip(group.rows, group.distance, strict=True)
    )
    columns = ("distance", "score", "R", "size")
    return Scatter(f"Models: {group.name}", columns, points, "distance", "score", f"Pearson {group.pearson}")


def model_table(groups: Sequence[GroupComparison]) -> Comparison:
    """List the correlations of score and distance of every group."""
    rows = tuple((group.name, str(len(group.rows)), *group.outcomes()) for group in groups)
    columns = ("models of", "models", "Pearson", "Spearman", "least, one left out", "greatest, one left out", "p")
    return Comparison("Score and distance", columns, rows, "Negative: nearer to the interval scores higher.")


def describe_shapes(
    table: ShapeTable,
    *,
    title: str = "A sweep over shapes",
    facts: Mapping[str, str] | None = None,
    loss: str = "test_loss",
    ratio: str = "ratio_out",
    energy: str = "aofe_out",
) -> RunRecord:
    """Gather what the page of a shape sweep shows; `ratio` and `energy` name the numbers of the plane."""
    log_energy, found = f"log10 {energy}", optima(table, loss)
    others = [n for n in table.numbers if n not in (loss, ratio, energy, *BOOKS)]
    numbers = [loss, ratio, log_energy, *others]
    about = {
        "Budgets": ", ".join(map(_size, table.budgets)),
        "Shapes": f"{len(table.over_seeds().seed):,}",
        "Seeds": ", ".join(map(str, np.unique(table.seed))),
    }
    drift = (OutcomeGroup("Across budgets", (stability(found),)),) if len(found) > 2 else ()
    notes = () if len(np.unique(table.seed)) > 1 else ("One seed a shape: nothing here says what another would give.",)
    return RunRecord(
        title=title,
        kind="shape sweep",
        facts={**(facts or {}), **about},
        outcomes=drift,
        comparisons=(optima_table(found), correlation_table(correlations(table, numbers[1:], loss))),
        scatters=(against_ratio(table, numbers), optima_chart(found), plane(table, ratio, log_energy, loss=loss)),
        notes=notes,
    )


def shapes_page(record: RunRecord, out: str | Path) -> Path:
    """Write the record and its pages into the folder `out`; returns the path of index.html."""
    record.save(out)
    return write_pages(record, Path(out) / "pages")
