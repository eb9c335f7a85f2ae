"""Pages of image networks: a network with its maps and what its moved weights did; and numbers against depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monoseme.composition.emc2 import Emc2
from monoseme.composition.genome import Genome
from monoseme.composition.graph_sparsity import graph_sparsity
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.explorer.static import write_network, write_pages
from monoseme.records import Comparison, OutcomeGroup, RunRecord, Scatter, ScatterPoint
from monoseme.records.network import MovedWeight, NetworkView

__all__ = ["depth_page", "depth_record", "network_page", "network_view"]


def network_view(
    network: ImageNetwork | Genome, score: Emc2 | None = None, title: str = "", **facts: str
) -> NetworkView:
    """Describe a network, layerised if it is a genome, and what its moved weights did."""
    net = layerize(network) if isinstance(network, Genome) else network
    values = [w.detach().double() for w in net.matrices]
    sparse = graph_sparsity(net)
    told = {
        "layers": " ".join(str(len(bank.names)) for bank in net.banks),
        "arity": f"{sparse.arity_mean:.2f} on average, {sparse.arity_max} at most",
        "links": f"{sparse.links:,}, {sparse.density:.0%} of a dense network of these neurons",
        **facts,
    }
    return NetworkView(
        title=title or "A network",
        activations=[list(bank.names) for bank in net.banks],
        weights=[(layer, to, from_, float(values[layer][to, from_])) for layer, to, from_ in net.entries()],
        outputs=net.outputs,
        labels={entry: name for entry, name in net.labels.items() if name},
        moved=() if score is None else tuple(map(_moved, score.per_weight)),
        outcomes=() if score is None else _numbers(score),
        facts=told,
        notes=() if score is None else _notes(score),
    )


def network_page(
    network: ImageNetwork | Genome, out: str | Path, score: Emc2 | None = None, title: str = "", **facts: str
) -> Path:
    """Write the page of a network into the folder `out`; returns the path of index.html.

    Parameters
    ----------
    network
        At most 60,000 weights that are not zero.
    score
        What `emc2` measured on it: drawn over its weights.
    facts
        How it was made, by name: said on the page.
    """
    return write_network(network_view(network, score, title, **facts), out)


def _moved(one: Any) -> MovedWeight:
    move = one.move
    return MovedWeight((move.layer, move.to, move.from_), move.delta, one.change, one.answer)


def _numbers(score: Emc2) -> tuple[OutcomeGroup, ...]:
    note = "Share of moved weights after which the judge says yes; read it with its companions."
    layers = tuple(
        Outcome(f"layer {layer}", o.value, o.unit, o.low, o.high, better="higher", n=o.n, n_unit=o.n_unit, note=o.note)
        for layer, o in score.layers()
    )
    bins = tuple(
        Outcome(f"{low:g} to {high:g}", o.value, o.unit, o.low, o.high, better="higher", n=o.n, n_unit=o.n_unit)
        for low, high, o in score.by_change()
        if o.value is not None
    )
    groups = [OutcomeGroup("Score", (score.score, score.score_visible, score.unchanged_share), note)]
    if bins:
        groups.append(OutcomeGroup("By change of the picture", bins, "Root mean square of pixels, 0 to 1."))
    return (*groups, OutcomeGroup("By layer of the weight", layers))


def _notes(score: Emc2) -> tuple[str, ...]:
    if score.baseline_passes:
        return ()
    return ("The picture does not pass even before a weight is moved, so the score means nothing.",)


def depth_record(
    rows: Sequence[Mapping[str, Any]],
    numbers: Sequence[str],
    *,
    across: str = "depth",
    series: str = "width",
    title: str = "Numbers against depth",
    **facts: str,
) -> RunRecord:
    """Draw numbers of a width × depth sweep against depth, a colour a width, means over seeds with intervals.

    Parameters
    ----------
    rows
        A mapping a trial, with `across`, `series`, "seed" and the numbers.
    numbers
        Columns that can be drawn; the first is drawn to begin with.
    """  # fmt: skip
    if not rows or not numbers:
        raise refuse("rows and numbers", "hold at least one", (len(rows), len(numbers)), "Give a sweep's trials.")
    missing = [name for name in (across, series, *numbers) if any(name not in row for row in rows)]
    if missing:
        raise refuse("rows", f"have the column {missing[0]}", ", ".join(map(str, rows[0])), "Name others.")
    points = []
    for name in sorted({row[series] for row in rows}):
        for at in sorted({row[across] for row in rows if row[series] == name}):
            mine = [row for row in rows if row[series] == name and row[across] == at]
            values = (Outcome(across, float(at), "1"), *(_mean(n, [float(row[n]) for row in mine]) for n in numbers))
            points.append(ScatterPoint(f"{series} {name}", f"{series} {name}, {across} {at}", values, "line"))
    chart = Scatter(
        title, (across, *numbers), tuple(points), across, numbers[0], "Means over seeds; whiskers are 95 % intervals."
    )
    table = Comparison(
        f"By {across}", (across, *numbers), tuple(_over(rows, across, at, numbers) for at in _values(rows, across)),
        f"Means over {series} and seeds.",
    )  # fmt: skip
    return RunRecord(title=title, kind="depth and width", facts=facts, scatters=(chart,), comparisons=(table,))


def depth_page(rows: Sequence[Mapping[str, Any]], numbers: Sequence[str], out: str | Path, **options: str) -> Path:
    """Write `depth_record` and its page into the folder `out`; returns the path of index.html."""
    record = depth_record(rows, numbers, **options)
    record.save(out)
    return write_pages(record, Path(out) / "pages")


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return sorted({row[name] for row in rows})


def _over(
    rows: Sequence[Mapping[str, Any]], across: str, at: object, numbers: Sequence[str]
) -> tuple[Outcome | str, ...]:
    return (f"{at}", *(_mean(n, [float(row[n]) for row in rows if row[across] == at]) for n in numbers))


def _mean(name: str, values: Sequence[float]) -> Outcome:
    found = mean_of([v for v in values if math.isfinite(v)])
    if found.n == 0:
        return Outcome(name, None, "1", note="not computed")
    low, high = (found.low, found.high) if found.n > 1 else (None, None)
    return Outcome(name, found.value, "1", low, high, n=found.n, n_unit="trials")
