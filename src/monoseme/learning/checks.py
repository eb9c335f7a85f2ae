"""Numbers that must be finite, checked before anything is changed by them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import UserError, refuse
from monoseme.core.rows import Batch, RowSource

__all__ = ["bad_row", "refuse_bad_gradient", "refuse_bad_source"]


def bad_row(batch: Batch) -> str | None:
    """Where the first row with a NaN or an infinity comes from; ``None`` when all are finite."""
    # One sum sees every NaN and infinity, several times faster than isfinite; it can overflow, so it only acquits.
    if torch.isfinite(batch.x.sum()):
        return None
    bad = (~torch.isfinite(batch.x).all(dim=1)).nonzero()
    if len(bad) == 0:
        return None
    row = int(bad[0])
    return f"NaN or infinity in sample {int(batch.sample[row])}, position {int(batch.position[row])}"


def refuse_bad_source(rows: RowSource) -> None:
    """Refuse rows whose moments already show a NaN or an infinity, before anything is initialised from them."""
    if torch.isfinite(rows.moments.mean).all():
        return
    for batch in rows.in_order(4096):
        if where := bad_row(batch):
            raise refuse("rows", "be finite", where, "Leave that sample out, or look at the model that made it.")


def refuse_bad_gradient(name: str, step: int, loss: Float[Tensor, ""], norm: Float[Tensor, ""]) -> None:
    """Refuse a loss or gradient that is not finite, before the optimiser sees it."""
    if torch.isfinite(loss.detach() + norm):
        return
    what, number = ("gradient", float(norm)) if torch.isfinite(loss) else ("loss", float(loss.detach()))
    raise UserError(
        f"objects must have a finite loss and gradient; got {what} {number} of {name!r} at step {step}, "
        "which was not taken. Lower lr, set clip, or lengthen the warm-up."
    )
