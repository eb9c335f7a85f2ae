"""AGOPs of a model on the data it is harvested from, and their pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monoseme.core.cards import BlockCard
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer
from monoseme.interaction import Agop, BlockEnergies, How, agop, block_energies
from monoseme.models import HookedModel
from monoseme.records import Comparison, Curve, Heat, OutcomeGroup, RunRecord
from monoseme.store import TokenPolicy
from monoseme.store.data import as_source
from monoseme.store.inputs import model_input
from monoseme.store.windows import Windows, as_windows

__all__ = ["agop_page", "agop_record", "block_gradients", "model_inputs", "with_gradients"]

SHOWN, HEATS, TOP, COORDINATES = 128, 6, 6, 6
PROBES = 8
ENERGIES = ("trace", "aofe", "aofe_ratio", "participation_ratio", "rotation_baseline", "excess", "mean_cos2")


def model_inputs(model: HookedModel, data: Any, samples: int, context: int = 64) -> Tensor | dict[str, Tensor]:
    """Inputs of a model from the data that `harvest` takes: pictures or tensors, or windows of text.

    Samples are spread evenly over the data. Windows are cut to one length, at most `context` tokens and as many as the
    longest `samples` of them have, so that there is no padding and every position is read alike.
    """
    if samples < 1:
        raise refuse("samples", "be at least 1", samples, "64 is a start.")
    source = as_windows(model, as_source(data), TokenPolicy(special=True, context=context))
    places = range(len(source))
    if not isinstance(source, Windows):
        chosen = [model_input(model, source[i]) for i in _spread(list(places), samples)]
        return torch.stack(chosen).to(model.device)
    length = int(np.sort(source.lengths)[::-1][:samples][-1])
    chosen = _spread([i for i in places if source.lengths[i] >= length], samples)
    ids = torch.stack([model_input(model, source[i])[:length] for i in chosen])
    whole = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return {name: part.to(model.device) for name, part in whole.items()}


def _spread(places: list[int], samples: int) -> list[int]:
    many = min(samples, len(places))
    return [places[i * len(places) // many] for i in range(many)]


def with_gradients(card: BlockCard, own: tuple[Outcome, ...]) -> BlockCard:
    """A card on which a block's gradients stand in the place of those not computed."""
    names = {one.name for one in own}
    return replace(card, outcomes=(*(o for o in card.outcomes if o.name not in names), *own))


def block_gradients(
    model: HookedModel, data: Any, at: str, featurizer: Featurizer, samples: int, seed: int = 0
) -> BlockEnergies:
    """What the network downstream of a hook does with every block: `interaction.block_energies` of the AGOP there.

    Of the logits at the last token of a language model, else of the outputs averaged over positions; `PROBES` a sample.
    """
    of = "last" if model.facts.tokenizer is not None else "mean"
    inputs = model_inputs(model, data, samples)
    found = agop(model, inputs, f"{at}:out", of=of, probes=PROBES, how=How(seed=seed))
    return block_energies(found, featurizer.atoms.cpu(), seed=seed)


def agop_record(
    found: Agop | Mapping[str, Agop], title: str = "", *, facts: Mapping[str, str] | None = None
) -> RunRecord:
    """Describe AGOPs: energies, of these samples and unbiased; spectra, top directions, and the matrices themselves."""
    made = {found.about.at: found} if isinstance(found, Agop) else dict(found)
    if not made:
        raise refuse("found", "hold at least one AGOP", "none", "Name a place.")
    about = next(iter(made.values())).about
    kind = "exact" if about.probes is None else f"{about.probes} {about.law} probes a sample"
    told = {
        **(facts or {}),
        "side": about.side,
        "of": about.of,
        "samples": f"{about.n}",
        "how": f"{kind}, {about.method}, {about.passes} passes for all places",
    }
    return RunRecord(
        title=title or f"AGOP at {', '.join(made)}",
        kind="interaction",
        facts=told,
        outcomes=tuple(_energies(name, one) for name, one in made.items()) if len(made) == 1 else (),
        comparisons=(*(() if len(made) == 1 else (_places(made),)), *map(_directions, made, made.values())),
        curves=tuple(_spectrum(name, one) for name, one in made.items()),
        heats=tuple(_heat(name, one) for name, one in list(made.items())[:HEATS] if one.about.formed),
        notes=tuple(dict.fromkeys(note for one in made.values() for note in one.about.notes)),
    )


def agop_page(found: Agop | Mapping[str, Agop], out: str | Path, title: str = "", **facts: str) -> Path:
    """Write record and page of AGOPs into the folder `out`; returns the path of index.html."""
    record = agop_record(found, title, facts=facts)
    record.save(out)
    return write_pages(record, Path(out) / "pages")


def _energies(name: str, one: Agop) -> OutcomeGroup:
    note = "Unbiased for the data these samples come from; the ratio is to be read beside that of a random basis."
    return OutcomeGroup(f"Energies at {name}", tuple(one.energy(e, population=True) for e in ENERGIES), note)


def _places(made: Mapping[str, Agop]) -> Comparison:
    rows = tuple(
        (name, str(one.about.width), *(one.energy(e, population=True) for e in ENERGIES[2:]))
        for name, one in made.items()
    )
    note = "Unbiased, with 95 % intervals. The baseline is the ratio of a random basis; excess is above it."
    return Comparison("Places", ("place", "width", *ENERGIES[2:]), rows, note)


def _spectrum(name: str, one: Agop) -> Curve:
    values = one.spectrum()
    kept = values[values > 1e-8 * values[0]] if len(values) and values[0] > 0 else values[:0]
    return Curve(f"spectrum at {name}", list(range(1, len(kept) + 1)), kept.tolist(), "gradient²", "rank", log_y=True)


def _directions(name: str, one: Agop) -> Comparison:
    title, columns = f"Top directions at {name}", ("direction", "share of the trace", "largest coordinates")
    if not one.about.formed:
        return Comparison(title, columns, (), "The matrix does not fit into memory, so directions are not known.")
    values, vectors = np.linalg.eigh(one.matrix)
    trace = max(float(values.sum()), 1e-300)
    rows: list[tuple[Outcome | str, ...]] = []
    for rank in range(1, min(TOP, len(values)) + 1):
        vector = vectors[:, -rank]
        largest = np.argsort(-np.abs(vector))[:COORDINATES]
        said = ", ".join(f"{i}: {vector[i] * np.sign(vector[largest[0]]):+.2f}" for i in largest)
        rows.append((str(rank), Outcome("share", float(values[-rank]) / trace, "share"), said))
    return Comparison(title, columns, tuple(rows), "Eigenvectors of these samples' matrix; coordinates from 0.")


def _heat(name: str, one: Agop) -> Heat:
    matrix, note = one.matrix, "All coordinates."
    if len(matrix) > SHOWN:
        kept = np.sort(np.argsort(-np.diag(matrix))[:SHOWN])
        matrix, note = matrix[np.ix_(kept, kept)], f"The {SHOWN} coordinates with the largest diagonal, in their order."
    return Heat(f"AGOP at {name}", tuple(tuple(row) for row in matrix.tolist()), "gradient²", note)
