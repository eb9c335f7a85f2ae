"""Fitting: one featurizer, or several from one pass over the data, by the one training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from monoseme.core.errors import closest, refuse
from monoseme.core.rows import RowSource, as_rows
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.io import check_target
from monoseme.featurizers.objective import AuxK, Objective, Precision
from monoseme.learning import History, Progress, Schedule, TrainConfig, train

__all__ = ["FitResult", "fit"]

# what else lies in the folder of a run
TAKEN = ("checkpoint", "log.jsonl", "origin.json", "record.json", "cards.safetensors", "pages")


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves behind.

    Attributes
    ----------
    featurizer
        The one that was passed in, now trained.
    history
        Numbers logged on the way (training rows, not held-out ones).
    path
        The run's folder, or ``None`` if nothing was written.
    """

    featurizer: Featurizer
    history: History
    path: Path | None


@overload
def fit(featurizers: Featurizer, rows: RowSource, **options: Any) -> FitResult: ...
@overload
def fit(featurizers: Mapping[str, Featurizer], rows: RowSource, **options: Any) -> dict[str, FitResult]: ...
def fit(  # pyright: ignore[reportInconsistentOverload]
    featurizers: Featurizer | Mapping[str, Featurizer],
    rows: RowSource,
    *,
    steps: int = 2000,
    batch_size: int = 2048,
    lr: float | Mapping[str, float] = 1e-3,
    lam: float | Mapping[str, float] | None = None,
    aux: AuxK | Literal["dead", "runners-up"] | None = None,
    optimiser: Literal["adam", "muon"] = "adam",
    schedule: Schedule | None = None,
    clip: float | None = None,
    seed: int = 0,
    precision: Precision = "float32",
    out: str | Path | None = None,
    resume: bool = True,
    held_out: RowSource | Tensor | np.ndarray | None = None,
    log_every: int = 50,
    checkpoint_every: int = 500,
    progress: Callable[[Progress], None] | None = None,
) -> FitResult | dict[str, FitResult]:
    """Train featurizers in place on the rows. Several see the same batches, each read once.

    Parameters
    ----------
    featurizers
        One, or several by name.
    rows
        Training rows in raw units.
    steps, batch_size, lr, optimiser, schedule, clip, seed
        See `learning.TrainConfig`. The default schedule warms up over 5 % of the steps and falls by a cosine to a
        tenth.
    lam
        λ of the penalty 2λ‖z‖ or 2λ‖z‖₀, in training units; the gate's own by default (`ReLU` and `JumpReLU` need
        one). Where a target L0 is held by dual ascent, its start. One number, or some by name.
    precision
        Of the dense products: ``"bfloat16"`` is faster where the hardware has it. Weights stay in single precision.
    aux
        Auxiliary loss; a word stands for `AuxK` with its defaults.
    out
        Folder for log, checkpoints and the trained featurizer; ``None`` writes nothing.
    resume
        Go on from a checkpoint in `out` if there is one, bit for bit.
    held_out
        Rows to calibrate gates on that select otherwise at inference (`BatchTopK`); the training rows by default.
    progress
        Called at every logged step.

    Returns
    -------
    FitResult or dict of FitResult
        As `featurizers` came.

    Raises
    ------
    UserError
        Too few rows, another width, constant rows, a row that is not finite (sample and position are named).
    """
    alone = isinstance(featurizers, Featurizer)
    named = {"featurizer": featurizers} if alone else _named(featurizers)
    aux = _auxiliary(aux)
    weights = lam if isinstance(lam, Mapping) else dict.fromkeys(named, lam)
    if wrong := sorted(weights.keys() - named.keys()):
        raise refuse("lam", "name featurizers of this fit", wrong[0], closest(wrong[0], named))
    held = rows if held_out is None else _held_out(held_out, rows)
    objectives = {name: Objective(f, _weight(f, weights.get(name)), aux, held, precision) for name, f in named.items()}
    config = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        optimiser=optimiser,
        schedule=schedule or Schedule(warmup=max(1, steps // 20), decay="cosine", floor=0.1),
        clip=clip,
        seed=seed,
        log_every=log_every,
        checkpoint_every=checkpoint_every,
    )
    folder = None if out is None else Path(out)
    if folder is not None:
        for name in named:
            _check_name(name)
            check_target(folder / name)
    about = {
        name: {**o.featurizer.recipe, "lam": o.lam, "aux": asdict(aux) if aux else None, "precision": precision}
        for name, o in objectives.items()
    }
    histories = train(objectives, rows, config=config, out=folder, resume=resume, progress=progress, about=about)
    results = {}
    for name, featurizer in named.items():
        if folder is not None:
            featurizer.save(folder / name)
        results[name] = FitResult(featurizer, histories[name], folder)
    return results["featurizer"] if alone else results


def _weight(featurizer: Featurizer, lam: float | None) -> float:
    """λ as asked for, or the gate's own."""
    gate, name = featurizer.gate, featurizer.recipe["name"]
    if lam is None:
        lam = gate.lam
    if lam is None or (gate.lam != 0 and lam == 0):
        got = "none" if lam is None else lam
        raise refuse("lam", f"be above 0 for {name}", got, "Without a penalty nothing is sparse; start from 0.1.")
    if not isinstance(lam, (int, float)):
        raise refuse("lam", "be a number", repr(lam), "Start from 0.1.")
    return float(lam)


def _held_out(given: RowSource | Tensor | np.ndarray, rows: RowSource) -> RowSource:
    """The rows to calibrate on, checked before training: they are looked at after it."""
    held = as_rows(given, "held_out")
    if held.d_in != rows.d_in:
        raise refuse("held_out", f"have the width of the training rows, {rows.d_in}", held.d_in, "Take the same hook.")
    if not len(held):
        raise refuse("held_out", "hold at least one row", "none", "Leave it out to calibrate on the training rows.")
    if not bool(torch.isfinite(held.moments.mean).all()):
        raise refuse("held_out", "be finite", "rows with NaN or infinity", "Leave their samples out.")
    return held


def _named(featurizers: Any) -> dict[str, Featurizer]:
    """Several featurizers by name, or one line that says what came instead and how to build one."""
    several = isinstance(featurizers, Mapping)
    wrong = [f for f in featurizers.values() if not isinstance(f, Featurizer)] if several else [featurizers]
    if wrong:
        rule, got = "be a Featurizer, or several by name", type(wrong[0]).__name__
        raise refuse("featurizer", rule, got, "Build one: monoseme.featurizers.TopK(d_in, n_blocks, k=4).")
    if not featurizers:
        raise refuse("featurizers", "hold at least one", "none", "Pass one, or several by name.")
    return dict(featurizers)


def _auxiliary(aux: AuxK | Literal["dead", "runners-up"] | None) -> AuxK | None:
    if aux is None or isinstance(aux, AuxK):
        return aux
    if aux in ("dead", "runners-up"):
        return AuxK(on=aux)
    raise refuse("aux", "be 'dead', 'runners-up', an AuxK or None", repr(aux), "None is no auxiliary loss.")


def _check_name(name: str) -> None:
    """Refuse, before training, what cannot be the name of a folder inside the run's."""
    if not 0 < len(name) <= 100 or not name.isprintable() or name[0] == "." or {"/", "\\"} & set(name) or name in TAKEN:
        rule = "have names that can be folders, when there is an out"
        raise refuse("featurizers", rule, ascii(name), f"Use a short word, and none of {', '.join(TAKEN)}.")
