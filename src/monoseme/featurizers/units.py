"""Units: raw activations ↔ the centred, scaled rows that featurizers are trained on.

Scale and shift are fitted once, saved with the featurizer, and never seen from outside: everything a featurizer shows
is in raw units, so that every checkpoint can be used by itself on raw activations.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.stats import Moments

__all__ = ["Norm", "Units"]

Norm = Literal["sqrt_d", "unit", "none"]


class Units(nn.Module):
    """x ↦ (x − shift) / scale.

    `norm` names what the training rows are scaled to: ``"sqrt_d"``, E‖x − mean‖² = d (the paper's text, and the
    default: a coordinate then has variance one whatever the width); ``"unit"``, E‖x − mean‖² = 1 (the paper's toy);
    ``"none"``, neither shifted nor scaled.
    """

    shift: Tensor
    scale: Tensor
    fitted: Tensor

    def __init__(self, d_in: int, norm: Norm) -> None:
        super().__init__()
        if norm not in ("sqrt_d", "unit", "none"):
            raise refuse("norm", "be 'sqrt_d', 'unit' or 'none'", repr(norm), "The default is 'sqrt_d'.")
        self.norm = norm
        self.register_buffer("shift", torch.zeros(d_in))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("fitted", torch.tensor(False))

    def fit(self, moments: Moments) -> None:
        """Take shift and scale from the training rows, once; a second call changes nothing.

        Raises
        ------
        UserError
            If the rows are constant, up to rounding: they have no variance to explain, and no scale.
        """
        if bool(self.fitted):
            return
        if self.norm != "none":
            mean_square, target = moments.mean_square_norm, len(self.shift) if self.norm == "sqrt_d" else 1.0
            scale = (mean_square / target) ** 0.5
            rounding = 1e-20 * float(moments.mean.square().sum())
            if not (mean_square > rounding and scale >= torch.finfo(self.scale.dtype).tiny):
                got = f"{moments.count} rows of variance {mean_square:.3g}"
                raise refuse("data", "vary between rows", got, "Check the hook and the token policy.")
            self.shift.copy_(moments.mean)
            self.scale.fill_(scale)
        self.fitted.fill_(True)

    def enter(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Raw rows, wherever they lie, to training units, on the featurizer's device and in its precision."""
        return (x.to(self.shift) - self.shift) / self.scale
