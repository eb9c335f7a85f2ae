"""Rows and their codes, batch by batch, checked: the one way in which evaluation looks at a featurizer."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import Batch, RowSource

__all__ = ["encoded"]


@torch.no_grad()
def encoded(
    featurizer: Featurizes, rows: RowSource, batch_size: int = 4096, refine: Refine = None
) -> Iterator[tuple[Batch, Code]]:
    """All rows in order, in their own dtype, with their codes, which lie where the featurizer's atoms do.

    Raises
    ------
    UserError
        No rows; rows of another width than the featurizer's; a row that is not finite, named by sample and position.
    """
    width = featurizer.atoms.shape[2]
    if len(rows) == 0:
        raise refuse("data", "hold at least one row", "none", "Choose another split or harvest more samples.")
    if rows.d_in != width:
        raise refuse(
            "data", f"have d_in = {width}, the featurizer's", rows.d_in, "Use rows of the hook it was fitted on."
        )
    for batch in rows.in_order(batch_size):
        finite = torch.isfinite(batch.x).all(1)
        if not finite.all():
            bad = int((~finite).nonzero()[0, 0])
            where = f"a NaN or infinity in sample {int(batch.sample[bad])}, position {int(batch.position[bad])}"
            raise refuse("data", "be finite", where, "Look at that sample, or harvest again without it.")
        yield batch, featurizer.encode(batch.x.to(featurizer.atoms), refine=refine)
