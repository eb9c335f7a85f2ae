"""The pages of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monoseme.api.certificates_record import certificate_page, certificates_record
from monoseme.api.describing import describe
from monoseme.api.fitting import evaluate, store_of
from monoseme.core.errors import refuse
from monoseme.evaluation import Evaluation
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer, load
from monoseme.optimality import Certification
from monoseme.store import ActivationStore

__all__ = ["page"]


def page(
    run: str | Path | Featurizer | Certification,
    store: ActivationStore | None = None,
    *,
    out: str | Path | None = None,
    controls: Mapping[str, Evaluation] | None = None,
    evaluation: Evaluation | None = None,
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
    title
        Heading of the page.
    """
    if isinstance(run, Certification):
        return _certificates(run, out, title, store=store, controls=controls, evaluation=evaluation)
    featurizer = run if isinstance(run, Featurizer) else load(run)
    if isinstance(run, Featurizer) and (store is None or out is None):
        raise refuse("store and out", "be given with a featurizer", "none", "Or pass the folder of a run.")
    held = store or store_of(run)  # pyright: ignore[reportArgumentType]
    folder = Path(out if out is not None else run)  # pyright: ignore[reportArgumentType]
    numbers = evaluation or evaluate(featurizer, held)
    fitted = None if isinstance(run, Featurizer) else Path(run)
    record = describe(featurizer, held, numbers, run=fitted, controls=controls or {}, title=title)
    record.save(folder)
    return write_pages(record, folder / "pages", lambda sample: held.sample(sample).thumbnail)


def _certificates(found: Certification, out: str | Path | None, title: str, **others: Any) -> Path:
    for name, given in others.items():
        if given is not None:
            raise refuse(name, "be left out with a certification", type(given).__name__, "It has its own rows.")
    if out is None:
        raise refuse("out", "be given with a certification", "nothing", "Name a folder: ms.page(found, out='folder').")
    return certificate_page(certificates_record(found, title=title), out)
