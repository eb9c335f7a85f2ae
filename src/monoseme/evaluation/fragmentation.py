"""How many pieces a circular variable is broken into: units that it takes to tell where on the ring one is.

A unit covers an angle when the angle can be told from its values: the nearest of the other angles' values lies within a
tolerance. A unit that is always on covers nothing; a narrowly tuned latent its own few angles; a block that holds the
whole ring, all. Units are added greedily, the one that covers most first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import refuse

__all__ = ["Cover", "PhaseCheck", "cover", "fragmentation", "phase_check"]

Responses = Sequence[Float64[np.ndarray, "n _"]]  # a unit each: its values (coordinates) at every angle


@dataclass(frozen=True)
class Cover:
    """Of one kind of unit.

    Attributes
    ----------
    single
        Share of the ring that the best single unit covers; higher is less fragmented.
    units
        The units added, in order, and the share covered with each.
    width
        Mean tuning width of these units, as share of the ring: where a unit is at least half as present as at most.
    reached
        Whether the share asked for was reached.
    """

    single: float
    units: tuple[tuple[int, float], ...]
    width: float
    reached: bool


def fragmentation(
    kinds: Mapping[str, Responses],
    angles: Float64[np.ndarray, " n"],
    *,
    reference: str,
    tolerance: float = np.pi / 12,
    most: int = 64,
) -> dict[str, Cover]:
    """Compare kinds of units: how many of each cover as much of the ring as the best one of `reference`.

    Parameters
    ----------
    kinds
        Values of every unit at every angle: blocks (n, b), latents and neurons (n, 1).
    angles
        Radians, in ascending order.
    reference
        The kind whose best unit sets the share to reach.
    tolerance
        Largest error, radians, at which an angle counts as told.
    most
        Units added at most.
    """  # fmt: skip
    if reference not in kinds:
        raise refuse("reference", f"be one of {', '.join(kinds)}", repr(reference), "Name the blocks.")
    share = cover(kinds[reference], angles, 1.0, tolerance=tolerance, most=1).single
    return {name: cover(units, angles, share, tolerance=tolerance, most=most) for name, units in kinds.items()}


def cover(
    units: Responses, angles: Float64[np.ndarray, " n"], share: float, *, tolerance: float = np.pi / 12, most: int = 64
) -> Cover:
    """Add units until `share` of the ring is covered, `most` are taken, or none covers more."""
    angles = np.asarray(angles, dtype=np.float64)
    if len(angles) < 8 or not units:
        raise refuse("angles and units", "be at least 8 and 1", (len(angles), len(units)), "Measure more angles.")
    if not 0 < tolerance < np.pi:
        raise refuse("tolerance", "lie inside 0…π", tolerance, "π / 12 is 15 degrees.")
    wrong = [
        i for i, unit in enumerate(units) if unit.ndim != 2 or len(unit) != len(angles) or not np.isfinite(unit).all()
    ]
    if wrong:
        raise refuse(f"units[{wrong[0]}]", f"be finite, {len(angles)} rows", units[wrong[0]].shape, "A row an angle.")
    apart = np.abs((angles[:, None] - angles[None] + np.pi) % (2 * np.pi) - np.pi)
    distances = np.stack([_distances(unit) for unit in units])
    total, taken = np.zeros_like(distances[0]), []
    single = 0.0
    while len(taken) < most:
        shares = np.array([_covered(total + one, apart, tolerance) for one in distances])
        best = int(shares.argmax())
        single = max(single, float(shares[best])) if not taken else single
        if taken and shares[best] <= taken[-1][1]:
            break
        taken.append((best, float(shares[best])))
        total = total + distances[best]
        if taken[-1][1] >= share:
            break
    widths = [_width(units[i]) for i, _ in taken]
    return Cover(single, tuple(taken), float(np.mean(widths)), taken[-1][1] >= share)


def _distances(unit: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n n"]:
    """Squared distances between angles, in units of the mean square of the values."""
    size = float(np.square(unit).sum(1).mean())
    if size == 0:
        return np.zeros((len(unit), len(unit)))
    return np.square(unit[:, None] - unit[None]).sum(2) / size


def _covered(distances: Float64[np.ndarray, "n n"], apart: Float64[np.ndarray, "n n"], tolerance: float) -> float:
    """Share of angles whose nearest other angles are all near: a tie with a far one tells nothing."""
    d = distances.copy()
    np.fill_diagonal(d, np.inf)
    nearest = d.min(1, keepdims=True)
    far = np.where(d <= nearest * (1 + 1e-9) + 1e-12, apart, 0.0).max(1)
    return float((far <= tolerance).mean())


def _width(unit: Float64[np.ndarray, "n c"]) -> float:
    presence = np.linalg.norm(unit, axis=1)
    return float((presence >= presence.max() / 2).mean()) if presence.max() > 0 else 0.0


@dataclass(frozen=True)
class PhaseCheck:
    """Of a block while a grating's phase makes one period.

    Attributes
    ----------
    ripple
        (largest - smallest) ÷ mean of the norm; a complex cell's is small.
    turns
        How often the code goes around in the plane of its two largest components; a quadrature pair goes once.
    """

    ripple: float
    turns: float

    @property
    def complex_cell(self) -> bool:
        """Norm within 10 %, one turn."""
        return self.ripple < 0.1 and abs(abs(self.turns) - 1) < 0.05


def phase_check(values: Float64[np.ndarray, "n b"]) -> PhaseCheck:
    """Check a block's codes at n equally spaced phases of one period, in order. A latent (b = 1) has no turn: 0."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) < 8 or not np.isfinite(values).all():
        raise refuse("values", "be finite, at least 8 phases", values.shape, "Equally spaced over one period.")
    norm = np.linalg.norm(values, axis=1)
    if norm.max() == 0:
        raise refuse("values", "be of a block that fires", "zeros", "Choose another block.")
    ripple = float((norm.max() - norm.min()) / norm.mean())
    if values.shape[1] < 2:
        return PhaseCheck(ripple, 0.0)
    centred = values - values.mean(0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    angle = np.unwrap(np.arctan2(*np.concatenate([plane, plane[:1]]).T[::-1]))
    return PhaseCheck(ripple, float((angle[-1] - angle[0]) / (2 * np.pi)))
