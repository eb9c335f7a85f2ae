"""How smooth concepts lie on a picture, or along a text: total variation and Dirichlet energy of their maps.

A map is the presence ‖z_g‖ of one block at every token of a sample, with ℓ2 norm 1; differences are between neighbours
on the grid, four of them, or two in a text. Only the 8 maps with most energy of every sample count (arXiv 2606.25234,
app. G.3). Lower is smoother. A block that fires on more tokens is smoother by that alone, and blocks of more dimensions
fire on more: so maps are also counted by the number of tokens they cover, and two featurizers compared at equal cover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float64, Int64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource, as_rows
from monoseme.core.stats import ratio_interval
from monoseme.evaluation.reading import encoded

__all__ = ["Smoothness", "dirichlet", "matched_ratio", "smoothness", "total_variation"]

MAPS = 8


@dataclass(frozen=True, eq=False)
class Smoothness:
    """Smoothness of concept maps; lower is smoother.

    Attributes
    ----------
    total_variation, dirichlet
        Means over the maps of every sample, then over samples, with intervals over samples.
    cover
        Tokens on which a map is not 0, mean.
    by_cover
        Octave of the cover (1, 2–3, 4–7, …) → number of maps, mean total variation, mean Dirichlet energy.
    """

    total_variation: Outcome
    dirichlet: Outcome
    cover: Outcome
    by_cover: Mapping[int, tuple[int, float, float]]


def total_variation(maps: Float64[np.ndarray, "m h w"]) -> Float64[np.ndarray, " m"]:
    """Σ |difference| over neighbours, down and right."""
    return sum(np.abs(np.diff(maps, axis=axis)).sum((1, 2)) for axis in (1, 2))  # pyright: ignore[reportReturnType]


def dirichlet(maps: Float64[np.ndarray, "m h w"]) -> Float64[np.ndarray, " m"]:
    """Σ difference² over neighbours, down and right."""
    return sum(np.square(np.diff(maps, axis=axis)).sum((1, 2)) for axis in (1, 2))  # pyright: ignore[reportReturnType]


def smoothness(
    featurizer: Featurizes,
    rows: RowSource | Tensor | np.ndarray,
    grid: tuple[int, int],
    *,
    maps: int = MAPS,
    batch_size: int = 4096,
    refine: Refine = None,
    seed: int = 0,
) -> Smoothness:
    """Measure on held-out rows of samples on one grid of tokens.

    Parameters
    ----------
    rows
        Rows with their sample and position, such as a store's; tokens that were not kept count as 0.
    grid
        (height, width) of the tokens; (1, T) for texts.
    maps
        Of most energy, of every sample.

    Raises
    ------
    UserError
        A position outside the grid.
    """
    h, w = grid
    if h < 1 or w < 1 or h * w < 2:
        raise refuse("grid", "have at least two tokens", grid, "Say (height, width); (1, T) for texts.")
    if maps < 1:
        raise refuse("maps", "be at least 1", maps, "8 is the paper's.")
    found = []  # a sample: number of maps, sums of TV, of Dirichlet, of cover
    octaves: dict[int, list[tuple[float, float]]] = {}
    for position, block, presence in _samples(featurizer, rows, batch_size, refine):
        if len(position) and int(position.max()) >= h * w:
            raise refuse("grid", f"hold position {int(position.max())}", grid, "Use the grid the rows come from.")
        made = _maps(position, block, presence, (h, w), maps)
        tv, energy, cover = total_variation(made), dirichlet(made), (made > 0).sum((1, 2))
        for one in zip(tv.tolist(), energy.tolist(), cover.tolist(), strict=True):
            octaves.setdefault(int(np.log2(one[2])), []).append(one[:2])
        if len(made):
            found.append((1.0, float(tv.mean()), float(energy.mean()), float(cover.mean())))
    by_cover = {2**k: (len(v), *np.mean(v, axis=0).tolist()) for k, v in sorted(octaves.items())}
    table = np.array(found).reshape(-1, 4)
    named = (("total_variation", "1"), ("dirichlet", "1"), ("cover", "tokens"))
    tv, energy, cover = (_mean(name, unit, table[:, i + 1], table[:, 0], seed) for i, (name, unit) in enumerate(named))
    return Smoothness(tv, energy, cover, by_cover)


def matched_ratio(rough: Smoothness, smooth: Smoothness) -> dict[str, float]:
    """Roughness of the first ÷ that of the second at equal cover: above 1 where the second is smoother.

    Means over octaves of the cover that both have, weighted by the fewer maps of the two; NaN where they share none.
    """
    both = [octave for octave in rough.by_cover if octave in smooth.by_cover]
    weights = np.array([min(rough.by_cover[o][0], smooth.by_cover[o][0]) for o in both], dtype=np.float64)
    if not len(both):
        return {"total_variation": float("nan"), "dirichlet": float("nan")}
    found = {}
    for i, name in ((1, "total_variation"), (2, "dirichlet")):
        top, bottom = (np.array([one.by_cover[o][i] for o in both]) for one in (rough, smooth))
        found[name] = float((weights * top).sum() / (weights * bottom).sum())
    return found


Entries = tuple[Int64[np.ndarray, " e"], Int64[np.ndarray, " e"], Float64[np.ndarray, " e"]]


def _samples(
    featurizer: Featurizes, rows: RowSource | Tensor | np.ndarray, batch_size: int, refine: Refine
) -> Iterator[Entries]:
    """Position, block and presence of every entry, a sample at a time; rows come in order of samples."""

    def entries() -> Iterator[tuple[int, Entries]]:
        for batch, code in encoded(featurizer, as_rows(rows), batch_size, refine):
            code = code.to("cpu")
            of_entry, sample = code.rows.numpy(), batch.sample.cpu().numpy()
            position, blocks = batch.position.cpu().numpy()[of_entry], code.indices.numpy().astype(np.int64)
            presence = code.presence.double().numpy()
            for one in np.unique(sample).tolist():
                mine = sample[of_entry] == one
                yield one, (position[mine].astype(np.int64), blocks[mine], presence[mine])

    for _, parts in groupby(entries(), key=lambda pair: pair[0]):
        found = [part for _, part in parts]
        yield tuple(np.concatenate([part[i] for part in found]) for i in range(3))  # pyright: ignore[reportReturnType]


def _maps(
    position: np.ndarray, block: np.ndarray, presence: np.ndarray, grid: tuple[int, int], many: int
) -> Float64[np.ndarray, "m h w"]:
    """The maps of most energy, of norm 1; fewer where fewer blocks fire."""
    blocks, of_entry = np.unique(block, return_inverse=True)
    energy = np.bincount(of_entry, weights=presence**2, minlength=len(blocks))
    kept = np.argsort(-energy, kind="stable")[:many]
    kept = kept[energy[kept] > 0]
    rank = np.full(len(blocks), -1)
    rank[kept] = np.arange(len(kept))
    mine = rank[of_entry] >= 0
    found = np.zeros((len(kept), grid[0] * grid[1]))
    found[rank[of_entry[mine]], position[mine]] = presence[mine]
    return (found / np.sqrt(energy[kept])[:, None]).reshape(len(kept), *grid)


def _mean(name: str, unit: str, values: Sequence[float] | np.ndarray, ones: np.ndarray, seed: int) -> Outcome:
    if not len(values):
        return unknown(name, unit, "no block fires")
    low, high = ratio_interval(np.asarray(values), ones, seed=seed)
    ends = (low, high) if np.isfinite([low, high]).all() else (None, None)
    better = None if name == "cover" else "lower"
    return Outcome(name, float(np.mean(values)), unit, *ends, better=better, n=len(values), n_unit="samples")
