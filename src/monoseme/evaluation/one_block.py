"""What one block tells of a quantity by a plane: R² of least squares on the block's b coordinates, on held-out groups.

Blocks are ranked on training rows. For a fair control scalar latents get as many coordinates: b of them, added one by
one, each the one that helps most beside those before it. Higher is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import ratio_interval

__all__ = ["OneBlock", "one_block_r2"]

RIDGE = 1e-4  # of a set's mean square: columns of one block may repeat one another on few rows


@dataclass(frozen=True, eq=False)
class OneBlock:
    """The best block, or set of latents, for a quantity.

    Attributes
    ----------
    r2
        On test rows, about the training mean, with an interval over groups; below 0 if worse than that mean.
    train
        R² on training rows, by which it was chosen.
    units
        The block, or the latents in the order they were added.
    """

    r2: Outcome
    train: float
    units: tuple[int, ...]


def one_block_r2(
    codes: Float64[np.ndarray, "n G b"],
    targets: Float64[np.ndarray, "n t"],
    groups: Int64[np.ndarray, " rows"],
    held: Bool[np.ndarray, " n"],
    *,
    latents: int = 1,
) -> OneBlock:
    """Find the block from which a quantity is best read off linearly, and measure it on rows not used for that.

    Parameters
    ----------
    codes
        (n, G, b) dense codes of rows, or codes pooled over a sample.
    targets
        (n, t) what is to be told; R² is of all t together (the cosine and sine of an angle, say).
    groups
        (n,) what the interval draws, such as the scene of a picture.
    held
        (n,) test rows.
    latents
        For scalar codes (b = 1): how many are used together.

    Raises
    ------
    UserError
        Lengths that do not fit, targets that do not vary, more latents than there are.
    """
    _check(codes, targets, groups, held, latents)
    flat = codes.reshape(len(codes), -1)
    x, y = flat - flat[~held].mean(0), targets - targets[~held].mean(0)
    gram, cross = x[~held].T @ x[~held], x[~held].T @ y[~held]
    total = float(np.square(y[~held]).sum())
    G, b = codes.shape[1:]
    chosen: list[int] = []
    train = 0.0
    for _ in range(latents):
        left = [g for g in range(G) if g not in chosen]
        sets = np.array([[u * b + j for u in (*chosen, g) for j in range(b)] for g in left])
        explained = _explained(gram, cross, sets) / total
        best = int(explained.argmax())
        chosen, train = [*chosen, left[best]], float(explained[best])
    columns = [u * b + j for u in chosen for j in range(b)]
    weights = _solve(gram, cross, np.array([columns]))[0]
    lost = np.square(x[held][:, columns] @ weights - y[held]).sum(1)
    return OneBlock(_r2(lost, np.square(y[held]).sum(1), groups[held]), train, tuple(chosen))


def _solve(gram: np.ndarray, cross: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """(m, w, t) weights of least squares on each of m sets of w columns."""
    inside = gram[sets[:, :, None], sets[:, None, :]]
    size = np.einsum("mii->m", inside) / sets.shape[1]
    ridge = RIDGE * size + 1e-300 + (size == 0)  # a set that never fires has weights 0
    return np.linalg.solve(inside + ridge[:, None, None] * np.eye(sets.shape[1]), cross[sets])


def _explained(gram: np.ndarray, cross: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """(m,) by how much each set's fit lowers the sum of squares."""
    w = _solve(gram, cross, sets)
    inside = gram[sets[:, :, None], sets[:, None, :]]
    return 2 * (w * cross[sets]).sum((1, 2)) - np.einsum("mit,mij,mjt->m", w, inside, w)


def _r2(lost: np.ndarray, whole: np.ndarray, groups: np.ndarray) -> Outcome:
    names, of_row = np.unique(groups, return_inverse=True)
    top, bottom = np.bincount(of_row, weights=lost), np.bincount(of_row, weights=whole)
    low, high = ratio_interval(top, bottom)
    ends = (1 - high, 1 - low) if np.isfinite([low, high]).all() else (None, None)
    value = 1 - float(top.sum() / bottom.sum())
    return Outcome("r2", value, "1", *ends, better="higher", n=len(names), n_unit="groups")


def _check(codes: np.ndarray, targets: np.ndarray, groups: np.ndarray, held: np.ndarray, latents: int) -> None:
    lengths: Sequence[int] = [len(part) for part in (codes, targets, groups, held)]
    if len(set(lengths)) > 1:
        raise refuse("codes, targets, groups and held", "be equally many", lengths, "One row each.")
    G, b = codes.shape[1:]
    if not 1 <= latents <= G or (latents > 1 and b > 1):
        raise refuse(
            "latents", f"be 1 for blocks, 1..{G} for scalar codes", latents, "Blocks have their own dimensions."
        )
    for name, side in (("training", ~held), ("test", held)):
        if not side.any() or not np.ptp(targets[side], axis=0).any():
            raise refuse("targets", f"vary on {name} rows", int(side.sum()), "Hold other groups out.")
