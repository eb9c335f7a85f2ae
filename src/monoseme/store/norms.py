"""`NormLimit`: how large the norm of a row may be, from a probe of the first training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

__all__ = ["PROBED", "NormLimit", "norm_limit", "norms"]

PROBED = 64  # training samples, at most; fixed, so that the limit is a function of model, data and policy


@dataclass(frozen=True)
class NormLimit:
    """Largest norm a row may have.

    Attributes
    ----------
    median, rows
        Median norm of the probe, and how many rows it had.
    limit
        The median times the policy's `max_norm`.
    share_above
        Share of the probe's rows above the limit.
    """

    median: float
    rows: int
    limit: float
    share_above: float

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"median": self.median, "probe_rows": self.rows, "limit": self.limit}


def norms(x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Euclidean norms, in float64 so that no dtype of a model overflows."""
    return x.double().square().sum(1).sqrt()


def norm_limit(x: Float[Tensor, "n d"], max_norm: float) -> NormLimit:
    """Limit from the rows of the probe."""
    found = norms(x)
    median = float(found.median())
    return NormLimit(median, len(x), max_norm * median, float((found > max_norm * median).double().mean()))
