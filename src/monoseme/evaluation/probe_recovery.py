"""Whether a direction that is known to matter lies in one block: ‖P_g w‖ ÷ ‖w‖ for the best-aligned block's span.

Of many blocks one is always near: the floor is what random directions have. A row of real activations is the ceiling of
what a dictionary can hold in one block. Higher is better, between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.seeds import generator

__all__ = ["ProbeRecovery", "alignment", "probe_recovery"]

DIRECTIONS = 200
CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class ProbeRecovery:
    """Of several directions; higher is better.

    Attributes
    ----------
    recovery
        Median over directions of the best block's ‖P_g w‖ ÷ ‖w‖; its interval is the middle half (IQR), level 0.5.
    floor, ceiling
        The same of random directions, and of rows of activations, where given.
    best
        (m,) the block of every direction.
    each
        (m,) its value.
    """

    recovery: Outcome
    floor: Outcome
    ceiling: Outcome | None
    best: np.ndarray
    each: Float64[np.ndarray, " m"]


def probe_recovery(
    atoms: Float[Tensor, "G b d"],
    directions: Float[Tensor, "m width"],
    rows: Float[Tensor, "n d"] | None = None,
    *,
    seed: int = 0,
) -> ProbeRecovery:
    """Align known directions, such as a probe's weights on raw activations, with blocks.

    Parameters
    ----------
    rows
        Activations minus their mean, for the ceiling.
    """
    best, each = alignment(atoms, directions)
    d = atoms.shape[2]
    drawn = torch.randn(DIRECTIONS, d, generator=generator(seed, "probe recovery"), dtype=torch.float64)
    floor = _summary("floor", alignment(atoms, drawn)[1], "random directions")
    ceiling = None if rows is None else _summary("ceiling", alignment(atoms, rows[:DIRECTIONS])[1], "rows")
    return ProbeRecovery(_summary("probe_recovery", each, "directions"), floor, ceiling, best, each)


def alignment(
    atoms: Float[Tensor, "G b d"], directions: Float[Tensor, "m width"]
) -> tuple[np.ndarray, Float64[np.ndarray, " m"]]:
    """The block whose span holds most of each direction, and ‖P_g w‖ ÷ ‖w‖. Atoms need not be orthonormal."""
    if atoms.shape[2] != directions.shape[1]:
        raise refuse("directions", f"have width {atoms.shape[2]}", tuple(directions.shape), "Use the same hook's.")
    w = directions.detach().double().cpu()
    norms = w.norm(dim=1)
    if not bool((torch.isfinite(norms) & (norms > 0)).all()):
        raise refuse("directions", "be finite and not zero", "one that is not", "Leave it out.")
    w = w / norms[:, None]
    _, sizes, right = torch.linalg.svd(atoms.detach().double().cpu(), full_matrices=False)
    basis = right * (sizes > 1e-10 * sizes.amax(1, keepdim=True).clamp(min=1e-300))[:, :, None]  # spans, and no more
    step = max(1, CHUNK // (basis.shape[0] * basis.shape[1]))
    found = [torch.einsum("md,gbd->mgb", w[i : i + step], basis).square().sum(2).max(1) for i in range(0, len(w), step)]
    best = torch.cat([one.indices for one in found]).numpy()
    return best, torch.cat([one.values for one in found]).clamp(max=1).sqrt().numpy()


def _summary(name: str, each: Float64[np.ndarray, " m"], unit: str) -> Outcome:
    low, middle, high = (float(v) for v in np.quantile(each, [0.25, 0.5, 0.75]))
    note = "median; the interval is the middle half"
    return Outcome(name, middle, "1", low, high, confidence=0.5, better="higher", n=len(each), n_unit=unit, note=note)
