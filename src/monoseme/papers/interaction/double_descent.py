"""Double descent of the toy over the number of training rows (arXiv 2605.27989), as one resumable sweep.

Settings are those of the authors' public code, first weights and (on a CPU) data too; batches are other draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from monoseme.core.rows import DrawnRows
from monoseme.learning import Schedule, Submits, SweepProgress, SweepResult, TrainConfig, sweep, train
from monoseme.papers.interaction.toy import Toy, agops, dense, draw_rows

__all__ = ["SEEDS", "SIZES", "Recipe", "double_descent", "measure", "numbers"]

SIZES = (
    *(3, 5, 8, 10, 15, 30, 50, 100, 200, 500),
    *(1000, 1395, 1946, 2714, 3786, 5282, 7368, 10278, 14337, 20000),
    *(30000, 40000),
)  # fmt: skip
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Recipe:
    """One trial, apart from the number of rows and the seed.

    Attributes
    ----------
    n, kept
        Width of a row; probability that an entry is not zero.
    steps, batch_size, lr, weight_decay
        AdamW, with batches drawn with replacement, of as many rows as there are where that is fewer than `batch_size`;
        the rate rises from a tenth over a quarter of the steps, then falls along a cosine to zero.
    test_rows
        Fresh rows on which the test loss and the AGOP are taken.
    """

    n: int = 1000
    kept: float = 0.01
    steps: int = 3000
    batch_size: int = 2048
    lr: float = 5e-3
    weight_decay: float = 1e-2
    test_rows: int = 5000

    def config(self, rows: int, seed: int) -> TrainConfig:
        """Settings of the training run."""
        schedule = Schedule(warmup=self.steps // 4, start=0.1, decay="cosine")
        size = min(self.batch_size, rows)
        return TrainConfig(self.steps, size, self.lr, schedule=schedule, weight_decay=self.weight_decay, seed=seed)


def measure(point: Mapping[str, Any], folder: Path, recipe: Recipe) -> dict[str, float]:
    """Train on ``point["size"]`` rows and measure. The seed moves weights and batches; the data belong to the size."""
    count, seed = point["size"], point["seed"]
    rows = draw_rows(count, recipe.n, recipe.kept, 12345 + count)
    test = draw_rows(recipe.test_rows, recipe.n, recipe.kept, 54321 + count)
    toy = Toy(recipe.n, seed)
    train(toy, DrawnRows(rows), config=recipe.config(count, seed), out=folder / "fit", about={"data": 12345 + count})
    return numbers(toy, rows, test)


@torch.no_grad()
def numbers(toy: Toy, rows: Tensor, test: Tensor) -> dict[str, float]:
    """Losses, and energies of the AGOP on the test rows, each side (see `agops`), in float64.

    Losses are summed over dimensions and averaged over rows (lower is better). AOFE is ‖G − diag G‖²_F, its ratio that
    over ‖G‖²_F. `pearson` is over the entries of Wᵀ W and G off the diagonal; `cosine` of Wᵀ W and G¹ or G^½, whole.
    """
    w, b, n = toy.w.double(), toy.b.double(), len(toy.b)
    gram = w.T @ w
    found = {"test_loss": _loss(w, b, test), "train_loss": _loss(w, b, rows)}
    for side, matrix in zip(("out", "in"), agops(w, b, dense(test, n).double()), strict=True):
        whole, diagonal = float(matrix.square().sum()), float(matrix.diagonal().square().sum())
        off = ~torch.eye(n, dtype=torch.bool)
        found[f"aofe_{side}"] = max(whole - diagonal, 0.0)
        found[f"ratio_{side}"] = found[f"aofe_{side}"] / whole if whole else float("nan")
        found[f"pearson_{side}"] = float(torch.corrcoef(torch.stack([gram[off], matrix[off]]))[0, 1])
        found[f"cosine_{side}"] = _cosine(gram, matrix)
        found[f"cosine_root_{side}"] = _cosine(gram, _root(matrix))
    return found


def _loss(w: Float64[Tensor, "2 n"], b: Float64[Tensor, " n"], rows: Tensor) -> float:
    total = 0.0
    for part in rows.split(4096):
        x = dense(part, len(b)).double()
        total += float((torch.relu(x @ w.T @ w + b) - x).square().sum())
    return total / len(rows)


def _cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / (a.norm() * b.norm()))


def _root(matrix: Float64[Tensor, "n n"]) -> Float64[Tensor, "n n"]:
    # LAPACK's evr: torch's divide and conquer gives up on some matrices that are nearly of rank 2
    from scipy.linalg import eigh

    values, vectors = (torch.from_numpy(part) for part in eigh(matrix.numpy(), driver="evr"))
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T


def double_descent(
    out: str | Path,
    *,
    sizes: Sequence[int] = SIZES,
    seeds: Sequence[int] = SEEDS,
    recipe: Recipe | None = None,
    executor: Submits | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Run all sizes with all seeds, or what is left of them, and write the tables of `learning.sweep` into `out`."""
    recipe = recipe or Recipe()
    points = [{"size": size} for size in sizes]
    about = {"recipe": asdict(recipe), "version": 1}
    work = functools.partial(measure, recipe=recipe)
    return sweep(work, points, out, seeds=seeds, executor=executor, about=about, progress=progress)
