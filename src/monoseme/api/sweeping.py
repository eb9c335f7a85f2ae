"""Sweeps of fits: featurizers with lists for their arguments, fitted on one store and measured on held-out samples."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from monoseme.api.fitting import evaluate, fit
from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.featurizers import ZOO, build
from monoseme.featurizers import fit as fit_rows
from monoseme.featurizers.zoo import check
from monoseme.learning import Submits, SweepProgress, SweepResult, TrainConfig, grid
from monoseme.learning import sweep as sweep_function
from monoseme.store import ActivationStore

__all__ = ["points_of", "sweep"]

# given by the store, by `seeds`, or by the sweep itself
ELSEWHERE = {
    "d_in": "It is the store's.",
    "seed": "Pass seeds to the sweep.",
    "out": "Each fit has a folder of its own.",
}
# what is no plain value, or none of a sweep's business
NOT_SWEPT = ("featurizers", "rows", "schedule", "held_out", "progress", "resume")
TRAINING = tuple(TrainConfig.__dataclass_fields__)
OPTIONS = tuple(n for n in inspect.signature(fit_rows).parameters if n not in (*ELSEWHERE, *NOT_SWEPT))


def sweep(
    featurizers: Sequence[Mapping[str, Any]],
    store: ActivationStore | str | Path,
    out: str | Path,
    *,
    seeds: Iterable[int] = (0,),
    split: str = "test",
    executor: Submits | None = None,
    resume: bool = True,
    progress: Callable[[SweepProgress], None] | None = None,
    **options: Any,
) -> SweepResult:
    """Fit many featurizers on one store, measure each on held-out samples, and gather one table.

    Parameters
    ----------
    featurizers
        ``{"name": "TopK", "n_blocks": [96, 192], "k": 12}`` and the like: a list stands for each of its values, and all
        combinations are fitted. Options of the fit may stand here too, where they are one featurizer's own.
    store
        Where the rows are.
    out
        Folder of the sweep, see `learning.sweep`; the run of each fit is in its trial's ``work/``.
    seeds
        Of the first atoms and of the order of the rows.
    split
        Which samples are measured.
    executor, resume, progress
        See `learning.sweep`.
    options
        Of every fit: `steps`, `batch_size`, `lr`, `lam`, `aux`, ...; again, a list stands for each of its values.

    Returns
    -------
    SweepResult
        `points` over seeds, `rows` one by one, `failures`. `sweep_page` draws it.

    Raises
    ------
    UserError
        An unknown name, a missing argument, a value that no fit can have; see also `learning.sweep`.
    """
    points = points_of(featurizers, options)
    held = store if isinstance(store, ActivationStore) else ActivationStore.open(store)
    held.rows(split)  # an unknown split is refused before anything is fitted
    for point in points:
        _check_point(point, held.d_in)
    digest = hashlib.sha256(json.dumps(held.manifest, sort_keys=True).encode()).hexdigest()
    work = functools.partial(fit_point, store=str(held.path), split=split)
    about = {"store": digest, "split": split}
    return sweep_function(
        work, points, out, executor=executor, seeds=seeds, resume=resume, about=about, progress=progress
    )


def fit_point(point: Mapping[str, Any], folder: Path, *, store: str, split: str) -> dict[str, Outcome]:
    """Fit and measure one point, in whatever process; a stopped fit goes on from its checkpoint in `folder`."""
    held, name = ActivationStore.open(store), point["featurizer"]
    takes = inspect.signature(ZOO[name]).parameters
    arguments = {key: value for key, value in point.items() if key in takes}
    options = {key: value for key, value in point.items() if key in OPTIONS and key not in takes}
    featurizer = build(name, {**arguments, "d_in": held.d_in})
    result = fit(featurizer, held, out=folder, seed=point["seed"], **options)
    return dict(evaluate(result.featurizer, held, split))


def points_of(featurizers: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every point that some featurizers and options of their fits stand for; unknown and missing names are refused."""
    if not featurizers:
        raise refuse(
            "featurizers", "hold at least one", "none", 'For example {"name": "TopK", "n_blocks": 64, "k": 4}.'
        )
    for key in options:
        _check_key(key, OPTIONS, "the options of a fit")
    points = []
    for entry in featurizers:
        rest = {key: value for key, value in entry.items() if key != "name"}
        if "name" not in entry:
            raise refuse("featurizers", "each have a name", dict(entry), closest("", ZOO))
        for name in _listed(entry["name"]):
            _check_entry(name, rest)
            lists = {
                key: _listed(value)
                for key, value in {**rest, **{k: options[k] for k in options if k not in rest}}.items()
            }
            points += [{"featurizer": name, **point} for point in grid(**lists)]
    return points


def _check_entry(name: Any, given: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or name not in ZOO:
        raise refuse("featurizers", "be in the zoo", repr(name), closest(str(name), ZOO))
    takes = inspect.signature(ZOO[name]).parameters
    for key in given:
        _check_key(key, [*(key for key in takes if key not in ELSEWHERE), *OPTIONS], f"the arguments of {name}")
    for key, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and key not in (*given, *ELSEWHERE):
            raise refuse(key, f"be given for {name}", "nothing", "It has no default.")


def _check_point(point: Mapping[str, Any], d_in: int) -> None:
    """Refuse, before anything is fitted, what would fail in every trial of the point; nothing is allocated."""
    name = point["featurizer"]
    takes = inspect.signature(ZOO[name]).parameters
    check(name, {"d_in": d_in, **{key: value for key, value in point.items() if key in takes}})
    TrainConfig(**{"steps": 1, **{key: value for key, value in point.items() if key in TRAINING and key not in takes}})


def _check_key(key: str, known: Iterable[str], where: str) -> None:
    if key in ELSEWHERE:
        raise refuse(key, f"be left out of {where}", "a value for it", ELSEWHERE[key])
    if key not in (known := list(known)):
        raise refuse(key, f"be among {where}", "a name unknown there", closest(key, known))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, range)) else [value]
