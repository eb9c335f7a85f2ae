"""How far each weight is moved: the same for all, in proportion, or until the picture has changed by so much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monoseme.composition.incremental import Move, Rendering
from monoseme.composition.network import Entry
from monoseme.core.errors import refuse
from monoseme.core.seeds import rng

__all__ = ["Delta", "change", "moves_of"]

LEAST, MOST = 1e-3, 16.0  # between which a step with a given visible change is looked for
GRID, HALVINGS = 15, 8


@dataclass(frozen=True)
class Delta:
    """How far.

    Attributes
    ----------
    kind
        ``"absolute"``: by `size`; ``"relative"``: by `size` times the weight; ``"visible"``: by what changes the
        picture by a root mean square of `size` (0…1), to within a tenth, or the nearest that can be had.
    size
        Positive.
    """

    kind: str
    size: float

    def __post_init__(self) -> None:
        if self.kind not in ("absolute", "relative", "visible"):
            raise refuse("kind", "be 'absolute', 'relative' or 'visible'", repr(self.kind), "Say how weights move.")
        if not 0 < self.size < float("inf"):
            raise refuse("delta", "be positive and finite", self.size, "0.5 is a start; the sign is drawn.")
        if self.kind == "visible" and self.size > 1:
            raise refuse("delta", "be at most 1 where it is a change of pixels", self.size, "0.1 is a tenth.")


def moves_of(
    rendering: Rendering, entries: Sequence[Entry], delta: Delta, sample: int | None, seed: int, draws: int = 1
) -> list[Move]:
    """Moves of each weight, or of a sample of them: up or down as the seed draws; the second time the other way.

    From the third time on the size is drawn too, between 0 and that of `delta`.
    """
    if draws < 1 or (draws > 2 and delta.kind == "visible"):
        raise refuse("draws", "be at least 1, and 1 or 2 at a visible change", draws, "2 is up and down.")
    if sample is not None and sample < 1:
        raise refuse("sample", "be at least 1, or None for all", sample, "400 give a share to within 5 points.")
    drawn = rng(seed, "emc2")
    signs = drawn.choice([-1.0, 1.0], len(entries))
    chosen = np.arange(len(entries))
    if sample is not None and sample < len(entries):
        chosen = np.sort(drawn.permutation(len(entries))[:sample])
    moves = []
    for i in chosen.tolist():
        layer, to, from_ = entries[i]
        weight = float(rendering.weights[layer][to, from_])
        by = {"absolute": delta.size, "relative": delta.size * abs(weight), "visible": 1.0}[delta.kind]
        moves += [Move(layer, to, from_, float(signs[i]) * part * by) for part in _parts(draws, seed, i)]
    return _calibrated(rendering, moves, delta.size) if delta.kind == "visible" else moves


def change(rendering: Rendering, moves: Sequence[Move]) -> dict[Move, float]:
    """Root mean square of the change of pixels by each move."""
    before = rendering.picture
    return {move: float((picture - before).square().mean().sqrt()) for move, picture in rendering.moved(moves)}


def _parts(draws: int, seed: int, i: int) -> list[float]:
    """Signed shares of the step: 1, -1, then drawn ones. A weight's own do not depend on the others'."""
    more = rng(seed, "emc2 draws", i).uniform(-1, 1, max(draws - 2, 0)).tolist()
    return [1.0, -1.0, *more][:draws]


def _calibrated(rendering: Rendering, moves: Sequence[Move], target: float) -> list[Move]:
    """The smallest step that reaches the target, to within a tenth; where none does, the one that comes nearest.

    Changes mostly grow with the step, not always: so a grid first, then halvings where it is first crossed.
    """
    grid = np.geomspace(LEAST, MOST, GRID)
    sizes = np.repeat(grid[:, None], len(moves), 1)
    found = np.stack([_changes(rendering, moves, row) for row in sizes])
    reached = found >= target
    first = np.where(reached.any(0), reached.argmax(0), np.abs(found - target).argmin(0))
    best, missed = grid[first], np.abs(found[first, np.arange(len(moves))] - target)
    low, high = np.log(grid[np.maximum(first - 1, 0)]), np.log(grid[first])
    open_ = reached.any(0)
    for _ in range(HALVINGS):
        waiting = np.flatnonzero(open_ & (missed > 0.1 * target)).tolist()
        if not waiting:
            break
        middle = (low + high) / 2
        there = _changes(rendering, [moves[i] for i in waiting], np.exp(middle[waiting]))
        for i, value in zip(waiting, there, strict=True):
            if abs(value - target) < missed[i]:
                best[i], missed[i] = np.exp(middle[i]), abs(value - target)
            low[i], high[i] = (middle[i], high[i]) if value < target else (low[i], middle[i])
    return [_by(move, float(size)) for move, size in zip(moves, best, strict=True)]


def _changes(rendering: Rendering, moves: Sequence[Move], sizes: np.ndarray) -> np.ndarray:
    tried = [_by(move, float(size)) for move, size in zip(moves, sizes, strict=True)]
    found = change(rendering, tried)
    return np.array([found[move] for move in tried])


def _by(move: Move, size: float) -> Move:
    return Move(move.layer, move.to, move.from_, float(np.sign(move.delta)) * size)
