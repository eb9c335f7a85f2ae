"""Second-order sums of codes and residuals: what description length and dimension are computed from. They add up.

Sums are kept in folds of whole samples, so that intervals can be had by leaving one fold out at a time: rows of one
picture are not independent, and numbers made of eigenvalues have no simple standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource, as_rows
from monoseme.core.stats import merged
from monoseme.evaluation.reading import encoded

__all__ = ["FOLDS", "CodeSums", "code_sums", "jackknife", "log2_choose", "sums_of"]

FOLDS = 20


@dataclass(frozen=True, eq=False)
class CodeSums:
    """Sums over rows, float64.

    Attributes
    ----------
    rows
        Number of rows.
    fired
        (G,) rows on which each block is active.
    total, gram
        (G, b) and (G, b, b): Σ z_g and Σ z_g z_gᵀ over those.
    x, xx
        (d,) Σ x and Σ x² per dimension, about `centre` of `sums_of`.
    r, rr
        (d,) and (d, d): Σ r and Σ r rᵀ of residuals x - x̂.
    active, choices
        Σ |S_i| and Σ log2 C(G, |S_i|) over rows, S_i the active blocks.
    """

    rows: float
    fired: Float64[Tensor, " G"]
    total: Float64[Tensor, "G b"]
    gram: Float64[Tensor, "G b b"]
    x: Float64[Tensor, " d"]
    xx: Float64[Tensor, " d"]
    r: Float64[Tensor, " d"]
    rr: Float64[Tensor, "d d"]
    active: float
    choices: float

    def minus(self, other: CodeSums) -> CodeSums:
        """Take rows out again."""
        return CodeSums(**{name: getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__})

    @property
    def density(self) -> Float64[Tensor, " G"]:
        """p_g, share of rows on which each block is active."""
        return self.fired / max(self.rows, 1.0)

    @property
    def variance(self) -> float:
        """Mean variance of a dimension of x."""
        return float((self.xx / self.rows - (self.x / self.rows).square()).mean())

    @property
    def residual(self) -> Float64[Tensor, "d d"]:
        """Covariance of the residuals."""
        mean = self.r / self.rows
        return self.rr / self.rows - torch.outer(mean, mean)

    def covariance(self, centred: bool = True) -> Float64[Tensor, "G b b"]:
        """Covariance of every block's coordinates on the rows where it is active; 0 where it never is."""
        n = self.fired.clamp(min=1)[:, None, None]
        found = self.gram / n
        if centred:
            mean = self.total / n[:, :, 0]
            found = found - mean[:, :, None] * mean[:, None, :]
        return found


def log2_choose(n: float, k: Float64[np.ndarray, "*shape"] | float) -> Float64[np.ndarray, "*shape"]:
    """log2 of n over k, also for k that is no whole number."""
    from scipy.special import gammaln

    k = np.asarray(k, dtype=np.float64)
    return np.asarray((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2))


def sums_of(x: Float[Tensor, "n d"], x_hat: Float[Tensor, "n d"], code: Code, centre: Float[Tensor, " d"]) -> CodeSums:
    """Sums of one batch. `centre`, near the mean of all rows, keeps digits; it changes no number."""
    blocks, z = code.indices.long().cpu(), code.values.detach().double().cpu()
    G, b = code.n_blocks, code.block_size
    wide, r = x.detach().double().cpu(), (x - x_hat.to(x)).detach().double().cpu()
    wide = wide - centre.double().cpu()
    total = torch.zeros(G, b, dtype=torch.float64).index_add_(0, blocks, z)
    gram = torch.zeros(G, b * b, dtype=torch.float64)
    for start in range(0, len(z), 1 << 18):  # (entries, b, b), a piece at a time
        part = slice(start, start + (1 << 18))
        gram.index_add_(0, blocks[part], (z[part, :, None] * z[part, None, :]).flatten(1))
    sizes = code.l0.cpu().numpy().astype(np.float64)
    return CodeSums(
        float(len(wide)),
        code.counts().double().cpu(),
        total,
        gram.reshape(G, b, b),
        wide.sum(0),
        wide.square().sum(0),
        r.sum(0),
        r.T @ r,
        float(sizes.sum()),
        float(log2_choose(G, sizes).sum()),
    )


@torch.no_grad()
def code_sums(
    featurizer: Featurizes,
    rows: RowSource | Tensor | np.ndarray,
    *,
    batch_size: int = 4096,
    refine: Refine = None,
    groups: Int[Tensor, " samples"] | None = None,
) -> list[CodeSums]:
    """Sums of held-out rows in at most 20 folds of whole samples (or groups of samples); a plain row is a sample."""
    source = as_rows(rows)
    folds: dict[int, CodeSums] = {}
    for batch, code in encoded(featurizer, source, batch_size, refine):
        x_hat, code = featurizer.decode(code).cpu(), code.to("cpu")
        unit = batch.sample.cpu().long() if groups is None else groups[batch.sample.cpu().long()]
        of_row = unit % FOLDS
        for fold in of_row.unique().tolist():
            mine = (of_row == fold).nonzero()[:, 0]
            part = _rows_of(code, mine)
            one = sums_of(batch.x.cpu()[mine], x_hat[mine], part, source.moments.mean)
            folds[fold] = one if fold not in folds else merged(folds[fold], one)
    return [folds[fold] for fold in sorted(folds)]


def _rows_of(code: Code, rows: Int[Tensor, " m"]) -> Code:
    counts = code.l0[rows]
    indptr = torch.zeros(len(rows) + 1, dtype=code.indptr.dtype)
    torch.cumsum(counts, 0, out=indptr[1:])
    # position of every entry: the start of its row, and how far inside
    inside = torch.arange(int(indptr[-1])) - indptr[:-1].repeat_interleave(counts)
    at = code.indptr[rows].repeat_interleave(counts) + inside
    return Code(indptr, code.indices[at], code.values[at], code.n_blocks)


def jackknife(
    folds: Sequence[CodeSums], of: Callable[[CodeSums], Sequence[float]], confidence: float = 0.95
) -> list[tuple[float, float | None, float | None]]:
    """Values of a function of the sums, each with an interval: one fold of samples left out at a time, Student's t.

    The interval lies about the value corrected for the bias of few rows, n θ - (n - 1) mean(θ without one): functions
    of eigenvalues have one, and an interval about the plain value would miss more often than it says.

    Returns
    -------
    list
        (plain value, low, high) for every value of the function; ends are None with fewer than three folds.
    """
    from scipy.stats import t

    whole = reduce(merged, folds)
    values = np.asarray(of(whole), dtype=np.float64)
    if len(folds) < 3:
        return [(float(v), None, None) for v in values]
    out = np.array([of(whole.minus(fold)) for fold in folds], dtype=np.float64)
    n = len(folds)
    error = np.sqrt((n - 1) / n * np.square(out - out.mean(0)).sum(0))
    reach, centre = t.ppf(0.5 + confidence / 2, n - 1) * error, n * values - (n - 1) * out.mean(0)
    return [
        (float(v), float(c - r), float(c + r)) if np.isfinite(c + r) else (float(v), None, None)
        for v, c, r in zip(values, centre, reach, strict=True)
    ]
