"""`gallery`: one card a block, from one pass over held-out rows. What a person looks at, as arrays and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource
from monoseme.core.seeds import rng
from monoseme.evaluation.block_numbers import block_numbers
from monoseme.evaluation.entries import Entries
from monoseme.evaluation.place import principal_frame
from monoseme.evaluation.reading import encoded

__all__ = ["HasGrid", "HeldOut", "gallery"]


@runtime_checkable
class HasGrid(Protocol):
    """A sample whose tokens lie on a grid, (height, width); (1, T) for text."""

    @property
    def grid(self) -> tuple[int, int]:
        """(height, width)."""
        ...


@runtime_checkable
class HeldOut(Protocol):
    """What the gallery needs of an activation store."""

    @property
    def ids(self) -> Sequence[str]:
        """Ids of all samples, of every split; ``Batch.sample`` counts in this list."""
        ...

    def rows(self, split: str) -> RowSource:
        """Rows of a split; ``Batch.position`` counts along the sample's grid, row by row."""
        ...

    def sample(self, id: str, /) -> HasGrid:
        """One sample."""
        ...


def gallery(
    featurizer: Featurizes,
    data: HeldOut,
    split: str = "test",
    *,
    blocks: Sequence[int] | None = None,
    shown: int = 8,
    cloud: int = 300,
    refine: Refine = None,
    seed: int = 0,
) -> list[BlockCard]:
    """Make one card a block from held-out samples.

    Parameters
    ----------
    featurizer
        What is shown.
    data
        An `ActivationStore`, or anything with rows, sample ids and grids (`HeldOut`).
    split
        Which samples; ``"test"`` are those the featurizer never saw.
    blocks
        Blocks to make cards of; all by default.
    shown
        Most samples on a card: those with the largest presence at any token.
    cloud
        Most points of a card's cloud, drawn from the rows on which the block fires.
    refine
        Improve the codes at inference: ``"ls"`` or ``"omp"``.
    seed
        Of the cloud's draw and of the intervals.

    Returns
    -------
    list of BlockCard
        In the order of `blocks`. A dead block has a card too, with density 0 and nothing shown. Places and clouds do
        not depend on how the block's coordinates are rotated.

    Raises
    ------
    UserError
        Rows of another width, none, or not finite; a block that does not exist; a token off its sample's grid.
    """
    wanted = list(range(featurizer.atoms.shape[0])) if blocks is None else list(blocks)
    for block in wanted:
        if not 0 <= block < featurizer.atoms.shape[0]:
            raise refuse("blocks", f"lie in 0..{featurizer.atoms.shape[0] - 1}", block, "Blocks are counted from 0.")
    entries = _read(featurizer, data, split, refine)
    atoms = featurizer.atoms.detach().double().cpu()
    numbers = block_numbers(entries, atoms, wanted, seed)
    return [_card(entries, atoms, g, numbers[g], (shown, cloud, seed)) for g in wanted]


def _read(featurizer: Featurizes, data: HeldOut, split: str, refine: Refine) -> Entries:
    codes, owners, positions = [], [], []
    for batch, code in encoded(featurizer, data.rows(split), refine=refine):
        codes.append(code.to("cpu"))
        owners.append(batch.sample.cpu())
        positions.append(batch.position.cpu())
    position = torch.cat(positions).numpy()
    found, owner = np.unique(torch.cat(owners).numpy(), return_inverse=True)
    ids = [data.ids[int(i)] for i in found]
    grids = [data.sample(id).grid for id in ids]
    tokens = np.array([height * width for height, width in grids])
    off = np.flatnonzero(position >= tokens[owner])
    if len(off):
        first = int(off[0])
        where = f"position {position[first]} of sample {ids[owner[first]]}, whose grid is {grids[owner[first]]}"
        raise refuse("data", "keep every token on its sample's grid", where, "Harvest again, or mend the grid.")
    # a source of rows that names no groups has samples that are independent
    groups = getattr(data, "groups", None)
    of_sample = np.arange(len(found)) if groups is None else np.asarray(groups)[found]
    return Entries(Code.cat(codes), owner, position, ids, grids, of_sample)


def _card(
    entries: Entries,
    atoms: Float64[Tensor, "G b d"],
    block: int,
    outcomes: tuple[Outcome, ...],
    limits: tuple[int, int, int],
) -> BlockCard:
    shown, cloud, seed = limits
    mine = entries.by_block[block]
    frame = principal_frame(entries.values[mine], atoms[block].numpy())
    place = np.zeros((len(mine), 3), dtype=np.float32)
    place[:, : frame.shape[1]] = entries.values[mine] @ frame
    owner = entries.owners[mine]
    strongest = np.zeros(len(entries.samples))
    np.maximum.at(strongest, owner, entries.presence[mine])
    # stable sort: of equally strong samples the earlier comes first
    top = [int(i) for i in np.argsort(-strongest, kind="stable")[:shown] if strongest[i] > 0]
    maps = tuple(_shown(entries, i, mine[owner == i], place[owner == i]) for i in top)
    drawn = np.arange(len(mine))
    if len(mine) > cloud:
        drawn = np.sort(rng(seed, "cloud", block).choice(len(mine), cloud, replace=False))
    return BlockCard(block, entries.code.block_size, outcomes, maps, place[drawn])


def _shown(entries: Entries, sample: int, mine: Int64[np.ndarray, " m"], place: Float32[np.ndarray, "m 3"]) -> Shown:
    height, width = entries.grids[sample]
    where = entries.row_position[entries.rows[mine]]
    presence, places = np.zeros(height * width, dtype=np.float32), np.zeros((height * width, 3), dtype=np.float32)
    presence[where], places[where] = entries.presence[mine], place
    return Shown(entries.samples[sample], (height, width), presence, places)
