"""Cones: which codes are allowed. A pre-code is projected on the cone before a gate sees it.

`"nonneg"` is R₊ᵇ (classical SAEs), `"free"` is Rᵇ (signed codes and blocks). With the cone named, b = 1 needs no
special case anywhere: the norm of a projected scalar is its ReLU under "nonneg" and its absolute value under "free".
"""

from __future__ import annotations

from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["Sign", "block_norms", "check_sign", "project"]

Sign = Literal["nonneg", "free"]


def check_sign(sign: str) -> None:
    """Raise unless `sign` names a cone."""
    if sign not in get_args(Sign):
        raise refuse("sign", "be 'nonneg' (R₊ᵇ) or 'free' (Rᵇ)", repr(sign), "Classical SAEs use 'nonneg'.")


def project(pre: Float[Tensor, "*rows b"], sign: Sign) -> Float[Tensor, "*rows b"]:
    """Project pre-codes on the cone: ReLU in every coordinate, or nothing."""
    return pre.relu() if sign == "nonneg" else pre


def block_norms(pre: Float[Tensor, "*rows G b"], sign: Sign) -> Float[Tensor, "*rows G"]:
    """Euclidean norm of every projected block, the only thing a gate may look at."""
    projected = project(pre, sign)
    if projected.shape[-1] == 1:
        return projected.squeeze(-1).abs()
    return projected.square().sum(-1).sqrt()
