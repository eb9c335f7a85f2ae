"""A finished sweep over block sizes as one page: a chart whose axes can be chosen, and the table it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monoseme.core.outcome import Outcome, unknown
from monoseme.explorer.static import write_pages
from monoseme.learning import SweepResult
from monoseme.learning.numbers import as_outcome
from monoseme.papers.bsf.block_measures import DEFAULTS
from monoseme.papers.bsf.block_sizes import SIZES
from monoseme.records import Comparison, RunRecord, Scatter, ScatterPoint

__all__ = ["block_record", "write_block_pages"]

NUMBERS = {
    "bits a row (paper)": "total 0.2",
    "bits a row (joint)": "joint 0.2",
    "code": "code 0.2",
    "support": "support 0.2",
    "residual": "residual 0.2",
    "FVU": "fvu",
    "stable rank (codes)": "stable_rank_codes",
    "participation ratio": "participation_ratio",
    "effective rank": "effective_rank",
    "total variation": "tv",
    "Dirichlet": "dirichlet",
    "dead": "dead_share",
    "blocks a row": "blocks_active",
}
NOTES = (
    "A stand-in: neither the paper's model nor its data. One seed, but for b = 1 and b = 3 of the first series.",
    "Bits are for 20 % of the variance lost. Every point chose its learning rate by whole fits on validation rows.",
    "shuffled: the fit's own directions dealt to blocks anew. dealt: the latents of b = 1 dealt to blocks of b.",
)


def write_block_pages(result: SweepResult, model: str, out: Path) -> Path:
    """Save the record into `out`, and its page into out/pages."""
    record = block_record(result, model)
    record.save(out)
    return write_pages(record, out / "pages")


def block_record(result: SweepResult, model: str) -> RunRecord:
    """What is shown of the sweep of one model."""
    points = tuple(point for row in result.rows for point in _points(row.trial.settings, row.numbers))
    points = tuple(sorted(points, key=lambda p: (p.series, p.strand, p.values[0].value)))
    columns = ("block size", *NUMBERS)
    main = _name(DEFAULTS)
    own = tuple(p for p in points if p.series.startswith(main) or p.series == _name({**DEFAULTS, "weights": "random"}))
    fits = tuple(p for p in points if not p.series.endswith(("shuffled", "dealt")))
    axes = {"x": "block size", "y": "bits a row (paper)"}
    charts = (
        Scatter("Fits and their controls", columns, own, note=NOTES[2], **axes),
        Scatter("Widths, active dimensions, variants", columns, fits, **axes),
    )
    table = Comparison(
        "Every fit and control",
        ("series", *columns),
        tuple((point.label, *point.values) for point in points),
        "Intervals: over samples (jackknife for bits and ranks).",
    )
    facts = {"model": model, "fits": str(len(result.rows)), "failed": str(len(result.failures))}
    return RunRecord(f"Block sizes: {model}", "sweep", facts, comparisons=(table,), scatters=charts, notes=NOTES[:2])


def _name(settings: Mapping[str, Any]) -> str:
    return f"{settings['species']}, {settings['weights']}, {settings['width']} wide, {settings['active']} active"


def _points(settings: Mapping[str, Any], numbers: Mapping[str, Any]) -> list[ScatterPoint]:
    """The fit; its own directions shuffled; of scalars, what they give dealt to every size."""
    series = _name(settings)
    b = settings["block_size"]
    found = [_point(series, b, "", numbers, settings["draw"])]
    if b > 1:
        found.append(_point(f"{series}, shuffled", b, "shuffled ", numbers, settings["draw"]))
        return found
    dealt = [size for size in SIZES if f"dealt {size} total 0.2" in numbers]
    return found + [_point(f"{series}, dealt", size, f"dealt {size} ", numbers, settings["draw"]) for size in dealt]


def _point(series: str, b: int, prefix: str, numbers: Mapping[str, Any], draw: int) -> ScatterPoint:
    values = [Outcome("block size", float(b), "dims")]
    for title, key in NUMBERS.items():
        given = numbers.get(f"{prefix}{key}")
        values.append(unknown(title, "", "measured of the fit only") if given is None else as_outcome(title, given))
    label = f"{series}, b = {b}" + (f", seed {draw}" if draw else "")
    # a seed's points are not joined to those of another
    return ScatterPoint(series, label, tuple(values), strand=f"{series} {draw}")
