"""`audit`: from a model and data to one page that says what its parts are, and how far to believe that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from monoseme.api.audit_record import audit_record
from monoseme.api.defaults import middle_hook
from monoseme.api.measuring import Arm, AuditSettings, Watch, measure
from monoseme.api.remembering import digest
from monoseme.core.errors import closest, refuse
from monoseme.core.files import only_writer, sha256
from monoseme.core.outcome import Outcome
from monoseme.evaluation import Evaluation
from monoseme.explorer.static import write_pages
from monoseme.featurizers import Featurizer
from monoseme.models import HookedModel, open_model
from monoseme.records.run import RECORD
from monoseme.store import ActivationStore

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    page
        Its first page.
    store
        The model's activations.
    featurizer
        The parts: the first of the two seeds.
    evaluation
        All numbers: fidelity, what the model loses, stability.
    controls
        The same of the control, by name.
    """

    page: Path
    store: ActivationStore
    featurizer: Featurizer = field(repr=False)
    evaluation: Evaluation
    controls: Mapping[str, Evaluation] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Outcome:
        return self.evaluation[name]


def audit(
    model: str | nn.Module | HookedModel,
    data: Any,
    out: str | Path,
    *,
    control: bool | nn.Module | HookedModel = False,
    title: str = "",
    watch: Watch | None = None,
    **options: Any,
) -> Audit:
    """Take a model apart and measure what came out: harvest, two fits, evaluation, splice, stability, one page.

    An audit that was stopped goes on when the same call is made again. What is there already is not done again.

    Parameters
    ----------
    model
        A name, a module of your own, or a `HookedModel`.
    data
        Whatever `harvest` takes: a folder of pictures or texts as a source, samples, texts, token ids, tensors.
    out
        Folder for everything: ``store/``, ``run/`` (both fits), ``numbers.json``, ``record.json``, ``pages/``, and
        ``control/``.
    control
        Do the same with random weights, and show both: of a named model with True; of a module of your own by passing
        it with fresh weights. Costs as much again.
    title
        Heading of the page.
    watch
        Is told what is being done (see `Watch`).
    options
        `at`, `featurizer`, `n_blocks`, `block_size`, `k`, `steps`, `lr`, `spliced`, `seed`, `tokens`, ...: see
        `AuditSettings`. What is left out follows a stated rule (see `defaults`).

    Returns
    -------
    Audit
        ``result.page`` is the page, ``result["fvu"]`` a number; ``print(result.evaluation.table())``.

    Raises
    ------
    UserError
        Whatever `harvest`, `fit` and `evaluate` refuse; a folder that holds the audit of other data or settings; too
        few samples to hold some out; an option that does not exist.
    """
    settings, watch, out = _settings(options), watch or Watch(), Path(out)
    opened = open_model(model)
    other = _control(model, control, settings.seed)
    at = settings.at or middle_hook(opened.hooks())
    with only_writer(out):
        arm = measure(opened, data, at, out, settings, watch)
        random = None if other is None else measure(other, data, at, out / "control", settings, watch)
        page = _page(arm, random, out, title, watch)
    controls = {} if random is None else {"random weights": random.evaluation.including(random.stability)}
    return Audit(page, arm.store, arm.featurizer, arm.evaluation.including(arm.stability), controls)


def _settings(options: Mapping[str, Any]) -> AuditSettings:
    known = [each.name for each in fields(AuditSettings)]
    for name in options:
        if name not in known:
            raise refuse("options", "be those of an audit", repr(name), closest(name, known))
    return AuditSettings(**options)


def _control(
    model: str | nn.Module | HookedModel, control: bool | nn.Module | HookedModel, seed: int
) -> HookedModel | None:
    if isinstance(control, bool):
        if control and not isinstance(model, str):
            fix = "Pass the module again, with its weights drawn anew."
            raise refuse("control", "be a module for a module of your own", "True", fix)
        return open_model(model, "random", seed) if control else None
    return open_model(control)


def _page(arm: Arm, control: Arm | None, out: Path, title: str, watch: Watch) -> Path:
    """Write record and pages, unless they are there and were made of the same numbers."""
    made_of = digest([arm.numbers.identity, None if control is None else control.numbers.identity, title])
    index, kept = out / "pages" / "index.html", arm.numbers.peek("page")
    there = index.exists() and (out / RECORD).exists()
    if there and kept == {"of": made_of, "record": sha256(out / RECORD)}:
        watch.step("the page is there already")
        return index
    watch.step(f"page: one card for each of {arm.featurizer.n_blocks:,} blocks")
    record = audit_record(arm, control, title)
    record.save(out)
    write_pages(record, out / "pages", lambda sample: arm.store.sample(sample).thumbnail)
    arm.numbers.set("page", {"of": made_of, "record": sha256(out / RECORD)})
    return index
