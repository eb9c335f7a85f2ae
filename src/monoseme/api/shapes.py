"""What a block looks like from within, from its card alone: dimensions it uses, and walks along a map of its codes.

A card keeps places: contributions in the block's first three principal directions, for a few hundred rows and for every
token of the samples that it shows. For blocks of up to three dimensions that is all of a contribution; for larger ones
it is the part that a person can see, and every text says so.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float64, Int64

from monoseme.core.cards import BlockCard
from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome, unknown
from monoseme.evaluation.dimension import FEWEST, RANKS, UNITS, ranks
from monoseme.explorer.live.certified import verdicts
from monoseme.explorer.live.schema import Shape, Walk, Way, Waypoint
from monoseme.explorer.live.table import number
from monoseme.records import CertificateTable, RunRecord
from monoseme.steering import ConceptMap, around, fit_map, walk

__all__ = ["Shapes", "dimensions", "walks"]

PLACES = 3  # coordinates of a place
STEPS = 9  # of a walk from end to end
ROUND = 12  # of one around a ring
KEPT = 256  # blocks whose shapes are kept in memory


class Shapes:
    """Shapes of a run's blocks, by number; each is computed when it is asked for.

    Parameters
    ----------
    record
        Its cards.
    certificates
        What was proved about its blocks, if it was kept with the run.
    uncertified
        Why there is none.
    """

    def __init__(self, record: RunRecord, certificates: CertificateTable | None = None, uncertified: str = "") -> None:
        self._cards = {card.block: card for card in record.cards}
        self._certificates, self._uncertified = certificates, uncertified
        self._shape = lru_cache(KEPT)(self._measured)

    def __call__(self, block: int) -> Shape | None:
        """The block's shape; None for a block that has no card."""
        return self._shape(block) if block in self._cards else None

    def _measured(self, block: int) -> Shape:
        card = self._cards[block]
        found = [] if self._certificates is None else verdicts(self._certificates, block)
        why = "" if found else self._uncertified or "The certificates kept with this run do not name this block."
        numbers = [number(outcome) for outcome in dimensions(card)]
        return Shape(block, card.block_size, numbers, walks(card), found, why)


def dimensions(card: BlockCard) -> tuple[Outcome, ...]:
    """Every reading of how many dimensions the block uses: the card's own, or from its cloud where it has none."""
    told = {outcome.name: outcome for outcome in card.outcomes}
    names = RANKS if card.block_size > 1 else ("effective_rank",)
    if all(name in told for name in names):
        return tuple(told[name] for name in names)
    b, drawn = card.block_size, _cloud(card)
    units = {name: UNITS.get(name, "dims") for name in names}
    if b > PLACES:
        why = f"only {PLACES} of its {b} directions are kept: make its pages anew"
    else:
        why = f"{len(drawn)} of its rows are kept; {FEWEST * b} are needed" if len(drawn) < FEWEST * b else ""
    spectrum = np.zeros(b) if why else np.linalg.eigvalsh(np.cov(drawn.T, bias=True).reshape(b, b)).clip(min=0)
    if not spectrum.max() > 0:
        why = why or "its codes do not vary"
        return tuple(told.get(name) or unknown(name, unit, why) for name, unit in units.items())
    found = ranks(torch.from_numpy(spectrum)[None])
    note = f"of its contributions, of {b}, on a draw of the rows on which it fires"
    return tuple(
        told.get(name) or Outcome(name, float(found[name][0]), unit, n=len(drawn), n_unit="rows", note=note)
        for name, unit in units.items()
    )


def walks(card: BlockCard, seed: int = 0) -> Walk:
    """Walks along a map of the card's cloud: around a ring, from end to end of a line, along and across a grid.

    Each waypoint names the token, of the samples on the card, whose code lies nearest.
    """
    drawn = _cloud(card)
    items, tokens, codes = _shown(card)
    if not len(codes):
        return Walk("", "", [], [], "It fires on no held-out sample.")
    try:
        found = fit_map(drawn, seed=seed)
        ways = [
            (name, closed, _steps(found, ends)) for name, closed, ends in _ends(found.topology, found.nodes.shape[:2])
        ]
    except UserError as error:
        return Walk("", "", [], [], f"No map of its codes: {error}")
    size = float(np.sqrt(np.square(drawn - drawn.mean(0)).sum(1).mean()))
    made = []
    for name, closed, steps in ways:
        away = np.linalg.norm(steps[:, None] - codes[None], axis=2)
        nearest = away.argmin(1)
        points = [
            Waypoint(_place(code), int(items[j]), int(tokens[j]), float(f"{away[i, j] / size:.4g}"))
            for i, (code, j) in enumerate(zip(steps, nearest, strict=True))
        ]
        made.append(Way(name, closed, points))
    why = found.found.why if found.found is not None else ""
    numbers = [number(outcome) for outcome in (found.quantisation_error, found.topographic_error)]
    return Walk(found.topology, _reason(card, why), numbers, made)


def _reason(card: BlockCard, why: str) -> str:
    part = f" In its first {PLACES} principal directions of {card.block_size}." if card.block_size > PLACES else ""
    return f"{why[:1].upper()}{why[1:]}.{part}" if why else part.strip()


def _cloud(card: BlockCard) -> Float64[np.ndarray, "m r"]:
    """Places of the cloud, without the coordinates that pad a small block, and without rows that are not finite."""
    drawn = card.cloud[np.isfinite(card.cloud).all(1), : min(card.block_size, PLACES)]
    return drawn.astype(np.float64)


def _shown(
    card: BlockCard,
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"], Float64[np.ndarray, "n r"]]:
    """Item of the card, token and place of everything that it shows."""
    r = min(card.block_size, PLACES)
    items, tokens, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros((0, r))]
    for i, item in enumerate(card.shown):
        at = np.flatnonzero((item.presence > 0) & np.isfinite(item.place).all(1))
        items.append(np.full(len(at), i))
        tokens.append(at)
        codes.append(item.place[at, :r].astype(np.float64))
    return np.concatenate(items), np.concatenate(tokens), np.concatenate(codes)


def _ends(topology: str, shape: tuple[int, ...]) -> list[tuple[str, bool, tuple[int, int] | None]]:
    """Name of each walk, whether it is closed, and its two ends; None for once around."""
    rows, columns = shape
    if topology in ("ring", "torus"):
        return [("once around", True, None)]
    if topology == "line":
        return [("from end to end", False, (0, rows - 1))]
    middle = rows // 2 * columns
    return [
        ("along", False, (columns // 2, (rows - 1) * columns + columns // 2)),
        ("across", False, (middle, middle + columns - 1)),
    ]


def _steps(found: ConceptMap, ends: tuple[int, int] | None) -> Float64[np.ndarray, "steps r"]:
    return around(found, ROUND) if ends is None else walk(found, ends, STEPS)


def _place(code: Float64[np.ndarray, " r"]) -> list[float]:
    """Three coordinates, as those of the cloud."""
    return [float(f"{v:.4g}") for v in code.tolist()] + [0.0] * (PLACES - len(code))
