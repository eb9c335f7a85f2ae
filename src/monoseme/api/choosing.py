"""Which featurizer for this store? Some at equal active dimensions and equal width, tuned alike, in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monoseme.api.fitting import evaluate, fit
from monoseme.api.remembering import Remembered, digest
from monoseme.api.splicing import held_inputs
from monoseme.core.errors import refuse
from monoseme.core.files import sha256
from monoseme.core.outcome import Outcome, unknown
from monoseme.evaluation import Evaluation
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer, build
from monoseme.learning import Progress
from monoseme.models import HookedModel, open_model
from monoseme.records import Comparison, RunRecord
from monoseme.store import ActivationStore

__all__ = ["Choice", "choose", "edge"]

RATES = (1e-3, 3e-3, 1e-2)
COLUMNS = ("fvu", "l0", "active_dims", "dead_share")  # then what the splice gives


@dataclass(frozen=True)
class Choice:
    """One featurizer of the table.

    Attributes
    ----------
    name
        Species, with the cone of a scalar code.
    featurizer
        The one of the learning rate that had the lowest FVU on the validation samples.
    lr
        That rate.
    tried
        Rate → FVU on the validation samples.
    numbers
        On the test samples.
    """

    name: str
    featurizer: Featurizer
    lr: float
    tried: Mapping[float, float | None]
    numbers: Evaluation


def contenders(d_in: int, width: int, active: int, b: int, seed: int) -> dict[str, Callable[[], Featurizer]]:
    """Two scalar codes and three block codes: `width` directions in all, `active` of them on at once."""
    for name, value in (("block_size", b), ("width", width), ("active", active)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise refuse(name, "be a positive integer", repr(value), "Directions are counted.")
        if value % b:
            raise refuse(name, f"be a multiple of the block size, {b}", value, "Blocks are whole.")
    scalar = {"d_in": d_in, "n_blocks": width, "k": active, "seed": seed}
    blocks = {"d_in": d_in, "n_blocks": width // b, "block_size": b, "seed": seed}
    return {
        "TopK, nonneg": lambda: build("TopK", {**scalar, "sign": "nonneg"}),
        "TopK, signed": lambda: build("TopK", {**scalar, "sign": "free"}),
        "BlockTopK": lambda: build("BlockTopK", {**blocks, "k": active // b}),
        "Grassmannian": lambda: build("Grassmannian", {**blocks, "k": active // b}),
        "GroupLasso": lambda: build("GroupLasso", {**blocks, "target_l0": active / b}),
        "GroupLasso, threshold": lambda: build("GroupLasso", {**blocks, "target_l0": active / b, "gate": "threshold"}),
    }


def choose(
    store: ActivationStore,
    out: str | Path,
    *,
    width: int = 4096,
    active: int = 32,
    block_size: int = 4,
    rates: Sequence[float] = RATES,
    seed: int = 0,
    model: str | HookedModel | None = None,
    source: Any = None,
    spliced: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> list[Choice]:
    """Fit several featurizers on one budget, tune each alike on the validation samples, and measure on the test ones.

    All are fitted in one pass over the rows, each with every rate; a stopped call goes on where it was.

    Parameters
    ----------
    store
        Needs a validation split.
    out
        Folder for the fits, the numbers and the page.
    width
        Directions in all, G·b: the same for everyone.
    active
        Active dimensions a row, k·b: the same for everyone; a target for those that hold one.
    block_size
        b of the block codes.
    rates
        Learning rates to try; each featurizer keeps the one with the lowest FVU on the validation samples.
    seed
        Of the first atoms and of the order of the rows.
    model, source, spliced
        See `evaluate`: adds what the model loses.
    progress
        Called at every logged step.
    options
        Of the fit: `steps`, `batch_size` (at most the number of rows), `aux`, ...

    Returns
    -------
    list of Choice
        In the order of the table. The page is ``out/pages/index.html``.
    """
    rates = _rates(rates)
    store.rows("validation")  # refused before anything is fitted, as what the splice would lack
    hooked = None if model is None else open_model(model)
    if hooked is not None:
        held_inputs(store, "test", hooked, source, spliced)
    options["batch_size"] = min(options.get("batch_size", 2048), len(store.rows("train")))
    makers = contenders(store.d_in, width, active, block_size, seed)
    named = {f"{slug(name)}-lr{rate:g}": (name, rate) for name in makers for rate in rates}
    featurizers = {key: makers[name]() for key, (name, _) in named.items()}
    lr = {key: rate for key, (_, rate) in named.items()}
    fit(featurizers, store, out=Path(out) / "fits", lr=lr, seed=seed, progress=progress, **options)
    choices = []
    for name in makers:
        keys = [key for key, (whose, _) in named.items() if whose == name]
        tried = {lr[key]: evaluate(featurizers[key], store, "validation", seed=seed)["fvu"].value for key in keys}
        best = min(keys, key=lambda key, of=tried: math.inf if (fvu := of[lr[key]]) is None else fvu)
        measured = best if hooked is None else f"{best}-spliced-{spliced or 'all'}"
        whole = Path(out) / "fits" / best / "featurizer.safetensors"
        # a name does not tell a featurizer from the one that was fitted here before, with other options
        about = {"featurizer": sha256(whole), "store": digest(store.manifest), "seed": seed}
        extra = {"model": hooked, "source": source, "spliced": spliced}
        numbers = Remembered(Path(out) / "numbers" / f"{measured}.json", about).get(
            "numbers", lambda f=featurizers[best], extra=extra: evaluate(f, store, seed=seed, **extra).to_json()
        )
        choices.append(Choice(name, featurizers[best], lr[best], tried, Evaluation.from_json(numbers)))
    _page(store, choices, Path(out), options)
    return choices


def _rates(rates: Sequence[float]) -> tuple[float, ...]:
    """Learning rates that differ in the digits that name their fits."""
    numbers = isinstance(rates, Sequence) and all(isinstance(rate, (int, float)) for rate in rates)
    if not numbers or not rates:
        raise refuse("rates", "hold at least one learning rate", repr(rates), "For example (1e-3, 3e-3).")
    if len({f"{rate:g}" for rate in rates}) < len(rates):
        raise refuse("rates", "differ in their first six digits", tuple(rates), "Leave one out.")
    return tuple(rates)


def slug(name: str) -> str:
    """A name that can be a folder."""
    return name.replace(", ", "-")


def table_of(choices: Sequence[Choice]) -> Comparison:
    """The table, intervals and all."""
    rest = [name for name in choices[0].numbers if name not in COLUMNS]
    columns = (*COLUMNS, *rest)
    rows: list[tuple[Outcome | str, ...]] = []
    for choice in choices:
        f = choice.featurizer
        have = choice.numbers
        cells = [have[name] if name in have else unknown(name, "1", "not computed") for name in columns]
        rows.append((choice.name, f"{f.n_blocks:,} × {f.block_size}", f"{choice.lr:g}", *cells))
    note = (
        "Equal width and equal active dimensions; the learning rate of each is the best of those tried on the "
        "validation samples, and the numbers are those of the test samples. One seed. GroupLasso aims at its L0 and is "
        "calibrated on the validation samples: see its active dims."
    )
    return Comparison("On one budget", ("featurizer", "blocks × size", "rate", *columns), tuple(rows), note)


def edge(choices: Sequence[Choice]) -> str:
    """Say whose best rate was the largest or the smallest one tried: their optimum may lie outside."""
    at = [c.name for c in choices if len(c.tried) > 1 and c.lr in (min(c.tried), max(c.tried))]
    if not at:
        return ""
    return f"The best rate is at the edge of those tried for {'; '.join(at)}: try further rates before comparing."


def _page(store: ActivationStore, choices: Sequence[Choice], out: Path, options: Mapping[str, Any]) -> None:
    m = store.manifest
    tried = tuple(
        (choice.name, *("not known" if fvu is None else f"{fvu:.4g}" for fvu in choice.tried.values()))
        for choice in choices
    )
    rates = tuple(f"FVU at rate {rate:g}" for rate in choices[0].tried)
    record = RunRecord(
        title=f"Which featurizer: {m['model']['name']}, {m['hook']}",
        kind="choice",
        facts={
            "Model": f"{m['model']['name']} ({m['model']['weights']})",
            "Hook": m["hook"],
            "Trained on": f"{m['rows']['train']:,} rows of {m['samples']['train']:,} samples",
            "Held out": f"{m['rows']['test']:,} rows of {m['samples']['test']:,} samples",
            "Fit": ", ".join(f"{name} {value}" for name, value in options.items()) or "defaults",
        },
        comparisons=(
            table_of(choices),
            Comparison("Tuning, on the validation samples", ("featurizer", *rates), tried, "Lower is better."),
        ),
        notes=tuple(note for note in (m["caveat"], edge(choices)) if note),
    )
    record.save(out)
    write_pages(record, out / "pages")
