"""Linear probes on codes: what can be read off them with a line, beside what can be read off the activations.

Samples, or groups of them, are split before anything is fitted; the strength of the penalty is chosen inside the
training part. Codes stay sparse. Higher is better throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import derive, rng
from monoseme.core.stats import ratio_interval

__all__ = ["Probe", "code_matrix", "iou", "pool", "probe"]

STRENGTHS = tuple(10.0 ** np.arange(-4, 5))
FOLDS = 3
TASKS = ("classes", "values")
Parts = tuple[np.ndarray, np.ndarray]  # numbers of the training rows, and of the test rows


@dataclass(frozen=True, eq=False)
class Probe:
    """A fitted probe.

    Attributes
    ----------
    score
        Of classes: accuracy (and `balanced`, the mean over classes of the share found); of values: R² on the test part.
    baseline
        What a guess has: the most frequent class; 0 for values.
    strength
        The penalty chosen inside the training part: 1 ÷ C of the logistic regression, or ridge's.
    weights
        (outputs, inputs) of the probe, for inputs divided by `scale`; ``weights / scale`` are for inputs as given.
    scale
        (inputs,) root mean square of every input on the training part.
    held, predicted
        Numbers of the rows of the test part, and what the probe says of each.
    """

    score: Outcome
    balanced: Outcome | None
    baseline: float
    strength: float
    weights: Float64[np.ndarray, "k f"]
    scale: Float64[np.ndarray, " f"]
    held: Int64[np.ndarray, " m"]
    predicted: np.ndarray


def code_matrix(code: Code) -> Any:
    """Codes as a SciPy sparse array (rows, G b), float64."""
    from scipy.sparse import csr_array

    code = code.to("cpu")
    b = code.block_size
    columns = (code.indices.numpy().astype(np.int64)[:, None] * b + np.arange(b)).ravel()
    shape = (code.n_rows, code.n_blocks * b)
    return csr_array((code.values.double().numpy().ravel(), columns, code.indptr.numpy() * b), shape=shape)


def pool(inputs: Any, sample: Int64[np.ndarray, " n"]) -> tuple[Any, Int64[np.ndarray, " s"]]:
    """The value of largest size of every column over a sample's rows, with its sign (arXiv 2606.25234, app. G.4).

    Returns the pooled matrix, sparse if `inputs` is, and the samples in ascending order.
    """
    from scipy.sparse import csr_array, issparse

    samples, of_row = np.unique(sample, return_inverse=True)
    if not issparse(inputs):
        found = np.zeros((len(samples), inputs.shape[1]))
        for s in range(len(samples)):
            rows = np.asarray(inputs)[of_row == s]
            found[s] = rows[np.abs(rows).argmax(0), np.arange(rows.shape[1])]
        return found, samples
    entries = inputs.tocoo()
    order = np.lexsort((-np.abs(entries.data), entries.col, of_row[entries.row]))
    keys = np.stack([of_row[entries.row][order], entries.col[order]], 1)
    first = np.ones(len(order), dtype=bool)
    first[1:] = (keys[1:] != keys[:-1]).any(1)
    kept = order[first]
    shape = (len(samples), inputs.shape[1])
    return csr_array((entries.data[kept], (of_row[entries.row[kept]], entries.col[kept])), shape=shape), samples


def probe(
    inputs: Any,
    targets: np.ndarray,
    groups: Int64[np.ndarray, " n"],
    *,
    task: str = "classes",
    test: float = 0.3,
    held: Bool[np.ndarray, " n"] | None = None,
    seed: int = 0,
) -> Probe:
    """Fit a linear probe and measure it on groups that it never saw.

    Parameters
    ----------
    inputs
        (n, f) array, or SciPy sparse array: codes, pooled codes, or activations.
    targets
        (n,) classes, or (n,) values.
    groups
        (n,) what must not be torn apart: the sample of a row, or the object or document of a sample.
    task
        ``"classes"``: logistic regression with an ℓ2 penalty. ``"values"``: ridge regression.
    test
        Share of the groups held out.
    held
        (n,) rows of the test part, where it is known already; no group may lie on both sides. None draws it.
    seed
        Of the split.

    Raises
    ------
    UserError
        Unlike lengths, fewer than two classes in the training part, an unknown task, too few groups, a group on both
        sides.
    """
    groups = np.asarray(groups)
    _check(inputs, targets, groups, task, test)
    parts = _split(groups, test, seed) if held is None else _given(groups, np.asarray(held, dtype=bool))
    scaled, scale = _scaled(inputs, parts[0])
    if task == "classes":
        return _classes(scaled, np.asarray(targets), groups, parts, scale, seed)
    return _values(scaled, np.asarray(targets, dtype=np.float64), groups, parts, scale)


def iou(truth: Bool[np.ndarray, " n"], said: Bool[np.ndarray, " n"], groups: Int64[np.ndarray, " n"]) -> Outcome:
    """Intersection over union of two sets of rows, summed over all; its interval draws whole groups. Higher is better.

    0 where neither holds anything.
    """
    both, either = (truth & said).astype(np.float64), (truth | said).astype(np.float64)
    return replace(_ratio("iou", both, either, groups), unit="1")


def _classes(x: Any, y: np.ndarray, groups: np.ndarray, parts: Parts, scale: np.ndarray, seed: int) -> Probe:
    from sklearn.linear_model import LogisticRegression

    train, held = parts
    known, counts = np.unique(y[train], return_counts=True)
    if len(known) < 2:
        raise refuse("targets", "have two classes in the training part", list(known), "Bring more groups.")

    def made(strength: float) -> Any:
        return LogisticRegression(C=1 / strength, max_iter=2000, random_state=derive(seed, "probe") % 2**31)

    strength = _strength(made, x, y, groups, train, lambda model, part: model.score(x[part], y[part]))
    model = made(strength).fit(x[train], y[train])
    said = model.predict(x[held])
    right = (said == y[held]).astype(np.float64)
    share = [float(right[y[held] == c].mean()) for c in np.unique(y[held])]
    balanced = Outcome(
        "balanced_accuracy", float(np.mean(share)), "share", better="higher", n=len(share), n_unit="classes"
    )
    return Probe(
        _ratio("accuracy", right, np.ones(len(right)), groups[held]),
        balanced,
        float((y[held] == known[counts.argmax()]).mean()),
        strength,
        np.asarray(model.coef_, dtype=np.float64),
        scale,
        held,
        said,
    )


def _values(x: Any, y: np.ndarray, groups: np.ndarray, parts: Parts, scale: np.ndarray) -> Probe:
    from sklearn.linear_model import Ridge

    train, held = parts

    def r2(model: Any, part: np.ndarray) -> float:
        return -float(np.square(model.predict(x[part]) - y[part]).sum())

    strength = _strength(lambda strength: Ridge(alpha=strength), x, y, groups, train, r2)
    model = Ridge(alpha=strength).fit(x[train], y[train])
    said = np.asarray(model.predict(x[held]), dtype=np.float64)
    lost = np.square(said - y[held])
    whole = np.square(y[held] - y[held].mean())
    if whole.sum() == 0:
        raise refuse("targets", "vary in the test part", "constant ones", "Bring more groups.")
    fvu = _ratio("fvu", lost, whole, groups[held])
    ends = (None, None) if fvu.low is None or fvu.high is None else (1 - fvu.high, 1 - fvu.low)
    score = Outcome("r2", 1 - (fvu.value or 0.0), "1", *ends, better="higher", n=fvu.n, n_unit=fvu.n_unit)
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    return Probe(score, None, 0.0, strength, weights, scale, held, said)


def _strength(
    made: Callable[[float], Any],
    x: Any,
    y: np.ndarray,
    groups: np.ndarray,
    train: np.ndarray,
    score: Callable[[Any, np.ndarray], float],
) -> float:
    """The penalty that is best on held-out thirds of the training groups."""
    names = np.unique(groups[train])
    parts = [train[np.isin(groups[train], names[i::FOLDS])] for i in range(min(FOLDS, len(names)))]
    if len(parts) < 2:
        return 1.0
    totals = []
    for strength in STRENGTHS:
        total = 0.0
        for part in parts:
            rest = np.setdiff1d(train, part)
            if len(np.unique(y[rest])) < 2:
                continue
            total += score(made(float(strength)).fit(x[rest], y[rest]), part)
        totals.append(total)
    return float(STRENGTHS[int(np.argmax(totals))])


def _scaled(inputs: Any, train: np.ndarray) -> tuple[Any, Float64[np.ndarray, " f"]]:
    """Columns divided by their root mean square on the training part; not centred, so that sparse stays sparse."""
    from scipy.sparse import csr_array, diags_array, issparse

    if issparse(inputs):
        x = csr_array(inputs)
        mean_square = np.asarray(x[train].multiply(x[train]).mean(0)).ravel()
        scale = np.sqrt(np.where(mean_square > 0, mean_square, 1.0))
        return csr_array(x @ diags_array(1 / scale)), scale
    x = np.asarray(inputs, dtype=np.float64)
    mean_square = np.square(x[train]).mean(0)
    scale = np.sqrt(np.where(mean_square > 0, mean_square, 1.0))
    return x / scale, scale


def _given(groups: np.ndarray, held: np.ndarray) -> Parts:
    if held.shape != groups.shape or not held.any() or held.all():
        raise refuse(
            "held", f"say of {len(groups)} rows which are test, some and not all", held.shape, "Or leave it out."
        )
    torn = np.intersect1d(groups[held], groups[~held])
    if len(torn):
        raise refuse("held", "keep groups whole", f"{len(torn)} on both sides", "Hold whole groups out.")
    return np.flatnonzero(~held), np.flatnonzero(held)


def _split(groups: np.ndarray, test: float, seed: int) -> Parts:
    names = rng(seed, "probe split").permutation(np.unique(groups))
    held = names[: max(1, round(test * len(names)))]
    inside = np.isin(groups, held)
    return np.flatnonzero(~inside), np.flatnonzero(inside)


def _ratio(name: str, top: np.ndarray, bottom: np.ndarray, groups: np.ndarray) -> Outcome:
    names, of_row = np.unique(groups, return_inverse=True)
    tops, bottoms = np.bincount(of_row, weights=top), np.bincount(of_row, weights=bottom)
    low, high = ratio_interval(tops, bottoms)
    ends = (low, high) if np.isfinite([low, high]).all() else (None, None)
    return Outcome(
        name,
        float(top.sum() / max(bottom.sum(), 1e-300)),
        "share",
        *ends,
        better="higher",
        n=len(names),
        n_unit="groups",
    )


def _check(inputs: Any, targets: np.ndarray, groups: np.ndarray, task: str, test: float) -> None:
    if task not in TASKS:
        raise refuse("task", f"be one of {', '.join(TASKS)}", repr(task), "Segmentation is classes of tokens.")
    if not inputs.shape[0] == len(targets) == len(groups):
        got = f"{inputs.shape[0]}, {len(targets)} and {len(groups)}"
        raise refuse("inputs, targets and groups", "be equally many", got, "One row each.")
    if not 0 < test < 1:
        raise refuse("test", "lie inside 0…1", test, "0.3 is usual.")
    if len(np.unique(groups)) < 4:
        raise refuse("groups", "be at least 4", len(np.unique(groups)), "The split holds whole groups out.")
