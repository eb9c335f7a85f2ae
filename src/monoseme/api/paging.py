"""The pages of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from monoseme.api.certificates_record import certificate_page, certificates_record
from monoseme.api.describing import describe
from monoseme.api.fitting import evaluate, store_of
from monoseme.api.interacting import with_gradients
from monoseme.core.errors import refuse
from monoseme.evaluation import Evaluation
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer, load
from monoseme.interaction import BlockEnergies
from monoseme.optimality import Certification
from monoseme.records import OutcomeGroup, RunRecord
from monoseme.store import ActivationStore

__all__ = ["page"]


def page(
    run: str | Path | Featurizer | Certification,
    store: ActivationStore | None = None,
    *,
    out: str | Path | None = None,
    controls: Mapping[str, Evaluation] | None = None,
    evaluation: Evaluation | None = None,
    gradients: BlockEnergies | None = None,
    title: str = "",
) -> Path:
    """Make the pages of a run: its numbers, curves, and one card a block. Returns the path of index.html.

    Of a certification: the page of its verdicts. Its record is kept in `out`, which must hold no other.

    Parameters
    ----------
    run
        Folder of a fit, a featurizer (then `store` and `out` are needed), or a certification (then `out` is).
    store
        Where the held-out samples lie; the run's own by default.
    out
        Folder for record and pages; the run's own by default.
    controls
        The same measurements on controls, by name, shown beside this run's.
    evaluation
        Numbers measured already; computed on the test split otherwise.
    gradients
        What the network downstream does with every block, from `interaction.block_energies`; shown on the cards.
    title
        Heading of the page.
    """
    if isinstance(run, Certification):
        others = {"store": store, "controls": controls, "evaluation": evaluation, "gradients": gradients}
        return _certificates(run, out, title, **others)
    featurizer = run if isinstance(run, Featurizer) else load(run)
    if isinstance(run, Featurizer) and (store is None or out is None):
        raise refuse("store and out", "be given with a featurizer", "none", "Or pass the folder of a run.")
    held = store or store_of(run)  # pyright: ignore[reportArgumentType]
    folder = Path(out if out is not None else run)  # pyright: ignore[reportArgumentType]
    numbers = evaluation or evaluate(featurizer, held)
    fitted = None if isinstance(run, Featurizer) else Path(run)
    record = describe(featurizer, held, numbers, run=fitted, controls=controls or {}, title=title)
    if gradients is not None:
        record = _with_gradients(record, gradients, featurizer)
    record.save(folder)
    return write_pages(record, folder / "pages", lambda sample: held.sample(sample).thumbnail)


def _with_gradients(record: RunRecord, energies: BlockEnergies, featurizer: Featurizer) -> RunRecord:
    """Sensitivity and interaction on every card, and those of all blocks among the numbers."""
    if len(energies.sensitivity) != featurizer.n_blocks:
        got = f"{len(energies.sensitivity)} blocks"
        raise refuse("gradients", f"be of this featurizer, {featurizer.n_blocks} blocks", got, "Compute them anew.")
    cards = tuple(with_gradients(card, energies.card(card.block)) for card in record.cards)
    whole = (energies.off_block, energies.off_block_ratio, energies.rotated_ratio)
    note = "AGOP in the basis of the blocks, D G Dᵀ; the ratio is to be read beside that of the dictionary turned."
    group = OutcomeGroup("What the network downstream does with the blocks", whole, note)
    return replace(record, cards=cards, outcomes=(*record.outcomes, group))


def _certificates(found: Certification, out: str | Path | None, title: str, **others: Any) -> Path:
    for name, given in others.items():
        if given is not None:
            raise refuse(name, "be left out with a certification", type(given).__name__, "It has its own rows.")
    if out is None:
        raise refuse("out", "be given with a certification", "nothing", "Name a folder: ms.page(found, out='folder').")
    return certificate_page(certificates_record(found, title=title), out)
