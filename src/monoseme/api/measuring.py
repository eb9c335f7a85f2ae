"""One arm of an audit: harvest a model, take it apart with two seeds, measure; what was done is not done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from monoseme import learning
from monoseme import store as stores
from monoseme.api.defaults import default_batch, default_steps, default_tokens, shape
from monoseme.api.fitting import evaluate, fit
from monoseme.api.interacting import block_gradients
from monoseme.api.remembering import Remembered
from monoseme.core.code import Code
from monoseme.core.errors import UserError, refuse
from monoseme.core.files import sha256
from monoseme.core.outcome import Outcome, unknown
from monoseme.evaluation import Evaluation, stability
from monoseme.evaluation.reading import encoded
from monoseme.featurizers import Featurizer, build
from monoseme.models import HookedModel
from monoseme.store import ActivationStore, TokenPolicy, harvest

__all__ = ["FIRST", "SECOND", "Arm", "AuditSettings", "Watch", "measure"]

FIRST, SECOND = "featurizer", "second-seed"  # folders of the two fits; the first is where `load(run)` looks


@dataclass(frozen=True)
class AuditSettings:
    """What an audit may be told. A size that is None follows its rule (see `defaults`).

    Attributes
    ----------
    at
        Hook name.
    featurizer, n_blocks, block_size, k
        A name in the zoo, and its sizes.
    lam
        Weight of the norm penalty, for featurizers that need one.
    steps, batch_size, lr
        Of the fit; a batch never holds more rows than there are.
    spliced
        Held-out samples to run the model on again with reconstructions put back; 0 leaves that out.
    gradients
        Samples on which gradients at the hook are taken, for what the network downstream does with a block; 0: none.
    seed
        Of the splits, the order of the rows, and the first featurizer; the second one starts from ``seed + 1``.
    tokens, dtype, harvest_batch
        `tokens`, `dtype` and `batch_size` of the harvest. Of a language model, rows above ten medians of the norm are
        dropped unless `tokens` says otherwise: one attention sink can hold most of the variance.
    """

    at: str | None = None
    featurizer: str = "Grassmannian"
    n_blocks: int | None = None
    block_size: int | None = None
    k: int | None = None
    lam: float | None = None
    steps: int | None = None
    batch_size: int = 2048
    lr: float = 3e-3
    spliced: int = 32
    gradients: int = 16
    seed: int = 0
    tokens: TokenPolicy | str | None = None
    dtype: str = "float32"
    harvest_batch: int = 16

    def __post_init__(self) -> None:
        for name, least in (("spliced", 0), ("gradients", 0), ("batch_size", 1), ("steps", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise refuse(name, f"be at least {least}", value, "Raise it.")
        # for any width and number of rows: what is wrong with the names is said before the harvest, not after it
        shape(self.featurizer, 1 << 12, 1 << 20, self.sizes)

    @property
    def sizes(self) -> dict[str, int | None]:
        """Sizes of the featurizer that were given."""
        return {"n_blocks": self.n_blocks, "block_size": self.block_size, "k": self.k}


@dataclass(frozen=True)
class Watch:
    """Who is told how far an audit is: the beginning of a step, in words; and the progress of the long ones."""

    step: Callable[[str], None] = lambda text: None
    harvest: Callable[[stores.Progress], None] | None = None
    fit: Callable[[learning.Progress], None] | None = None


@dataclass(frozen=True, eq=False)
class Arm:
    """What was made of one model.

    Attributes
    ----------
    run
        Folder of the two fits.
    evaluation
        Fidelity of the first, and what the model loses.
    second
        Fidelity of the second.
    stability
        How far the two agree.
    agreement
        (G,) one outcome for every block of the first: how like it its partner in the second is.
    downstream, by_block
        Off-block energy of the AGOP at the hook; and sensitivity and interaction of every block. One unknown outcome
        that says why, and no blocks, where there are no gradients.
    numbers
        The file with all of these.
    """

    store: ActivationStore
    run: Path
    featurizer: Featurizer
    evaluation: Evaluation
    second: Evaluation
    stability: tuple[Outcome, ...]
    agreement: tuple[Outcome, ...]
    downstream: tuple[Outcome, ...]
    by_block: tuple[tuple[Outcome, ...], ...]
    numbers: Remembered


def measure(model: HookedModel, data: Any, at: str, out: Path, settings: AuditSettings, watch: Watch) -> Arm:
    """Harvest, fit twice and measure, in the folder `out`."""
    watch.step(f"harvest {model.name} ({model.facts.weights}) at {at}")
    store = harvest(
        model,
        data,
        at,
        out / "store",
        seed=settings.seed,
        dtype=settings.dtype,
        batch_size=settings.harvest_batch,
        tokens=default_tokens(model) if settings.tokens is None else settings.tokens,
        progress=watch.harvest,
    )
    store.rows("test")  # refused now, not after the fit, when there are none
    first, second = _fit(store, out / "run", settings, watch)
    identity = {
        "store": sha256(store.path / "manifest.json"),
        "fits": [sha256(out / "run" / name / "featurizer.safetensors") for name in (FIRST, SECOND)],
        "spliced": settings.spliced,
        "gradients": settings.gradients,
        "seed": settings.seed,
        "version": version("monoseme"),
    }
    kept = Remembered(out / "numbers.json", identity)
    also = f"; splice {settings.spliced} of them" if settings.spliced else ""
    watch.step("measure on held-out samples" + also + ("; differentiate" if settings.gradients else ""))
    own = kept.get("evaluation", lambda: _evaluate(first, store, model, data, settings).to_json())
    other = kept.get("second", lambda: evaluate(second, store, seed=settings.seed).to_json())
    watch.step("compare the two seeds")
    drawn = kept.get("gradients", lambda: _gradients(first, model, data, at, settings))
    agreed = kept.get("stability", lambda: _compare(first, second, store, settings.seed))
    return Arm(
        store,
        out / "run",
        first,
        Evaluation.from_json(own),
        Evaluation.from_json(other),
        tuple(Outcome.from_json(o) for o in agreed["outcomes"]),
        tuple(Outcome.from_json(o) for o in agreed["blocks"]),
        tuple(Outcome.from_json(o) for o in drawn["outcomes"]),
        tuple(tuple(Outcome.from_json(o) for o in block) for block in drawn["blocks"]),
        kept,
    )


def _fit(store: ActivationStore, out: Path, settings: AuditSettings, watch: Watch) -> tuple[Featurizer, Featurizer]:
    rows = len(store.rows("train"))
    sizes = shape(settings.featurizer, store.d_in, rows, settings.sizes)
    batch = default_batch(rows, settings.batch_size)
    steps = settings.steps or default_steps(rows, batch)
    said = ", ".join(f"{name} {size:,}" for name, size in sizes.items() if name != "d_in")
    size = f"{steps:,} steps of {batch:,} rows, of {rows:,}"
    watch.step(f"fit {settings.featurizer} with two seeds in one pass: {said}; {size}")
    both = {
        name: build(settings.featurizer, {**sizes, "seed": settings.seed + i}) for i, name in enumerate((FIRST, SECOND))
    }
    results = fit(
        both,
        store,
        out=out,
        steps=steps,
        batch_size=batch,
        lr=settings.lr,
        lam=settings.lam,
        aux="dead",
        seed=settings.seed,
        progress=watch.fit,
    )
    return results[FIRST].featurizer.eval(), results[SECOND].featurizer.eval()


def _evaluate(
    featurizer: Featurizer, store: ActivationStore, model: HookedModel, data: Any, settings: AuditSettings
) -> Evaluation:
    if not settings.spliced:
        return evaluate(featurizer, store, seed=settings.seed)
    return evaluate(featurizer, store, model=model, source=data, spliced=settings.spliced, seed=settings.seed)


def _gradients(
    featurizer: Featurizer, model: HookedModel, data: Any, at: str, settings: AuditSettings
) -> dict[str, Any]:
    """Outcomes of all blocks and of every block, as plain JSON values; why not, where the model gives no gradients."""
    why = "not computed: no sample was to be differentiated"
    if settings.gradients:
        try:
            found = block_gradients(model, data, at, featurizer, settings.gradients, settings.seed)
        except (UserError, RuntimeError) as error:  # RuntimeError: an operation without a derivative
            why = f"not computed: {next(iter(str(error).splitlines()), '')}"
        else:
            whole = (found.off_block_ratio, found.rotated_ratio)
            blocks = [[o.to_json() for o in found.card(g)] for g in range(featurizer.n_blocks)]
            return {"outcomes": [o.to_json() for o in whole], "blocks": blocks}
    return {"outcomes": [unknown("off_block_ratio", "share", why).to_json()], "blocks": []}


def _compare(first: Featurizer, second: Featurizer, store: ActivationStore, seed: int) -> dict[str, Any]:
    """Numbers of `stability`, and an outcome for every block of the first, as plain JSON values."""
    codes = [Code.cat([code.to("cpu") for _, code in encoded(f, store.rows("test"))]) for f in (first, second)]
    dead = [not len(code.indices) for code in codes]
    if any(dead):  # nothing to match: that is a finding, not a mistake of the caller
        why = f"every block of the {'first' if dead[0] else 'second'} seed is dead on held-out rows"
        blocks = [unknown("stability", "1", why).to_json()] * first.n_blocks
        return {"outcomes": [unknown("stability", "1", why).to_json()], "blocks": blocks}
    found = stability([first, second], codes=codes, seed=seed)
    (pair,) = found.pairs
    fires = codes[0].counts().cpu().numpy() > 0
    blocks = [
        _of_block(int(partner), float(alike), bool(alive))
        for partner, alike, alive in zip(pair.match, pair.similarity, fires, strict=True)
    ]
    return {"outcomes": [o.to_json() for o in found.outcomes], "blocks": [o.to_json() for o in blocks]}


def _of_block(partner: int, alike: float, alive: bool) -> Outcome:
    if not np.isfinite(alike):
        return unknown("stability", "1", "the second seed has no block left to match" if alive else "it never fires")
    note = f"mean squared cosine of principal angles to block {partner} of a second seed, its match one to one"
    return Outcome("stability", alike, "1", better="higher", note=note)
