"""`certify_blocks`: conditions, pair screens and gains of a dictionary of blocks, with a verdict for every block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.rows import RowSource
from monoseme.core.stats import wilson
from monoseme.optimality.blocks import conditions, gains
from monoseme.optimality.blocks.frames import Blocks, batches
from monoseme.optimality.blocks.frames import blocks as read
from monoseme.optimality.blocks.moves import Move, Promise, held_out_p, pair_move, taken
from monoseme.optimality.blocks.pairs import Survey, survey
from monoseme.optimality.caveats import far_from_optimal
from monoseme.optimality.certification import FeatureCertificate, Witness
from monoseme.optimality.reading import as_matrix
from monoseme.optimality.wide import check_lam, wide_limit

__all__ = ["BlockCertificates", "certify_blocks", "move_of"]

OPEN = "no pair of blocks proves it unstable; the joint certificate over all partners is not computed"
NOTES = (
    "blocks: verdicts are 'unstable', by one partner or by the bias alone, or 'unknown'; the joint certificate over "
    "all partners, which could also say 'stable', is not computed",
    "strain of a block: lower bound of how many λ long the residual must be inside its span on some row where it is "
    "off; at most 1 at an optimum",
)
FRESH = "verdicts hold for exactly these rows: give held-out codes to test them for others"


class BlockCertificates(NamedTuple):
    """What `certify_blocks` finds: certificates by block, numbers of the whole, K1-K3, and what is to be said."""

    features: tuple[FeatureCertificate, ...]
    numbers: dict[str, Outcome]
    kkt: dict[str, Outcome]
    notes: tuple[str, ...]


def certify_blocks(
    rows: np.ndarray | Tensor | RowSource,
    code: Code | np.ndarray | Tensor,
    frames: np.ndarray | Tensor,
    bias: np.ndarray | Tensor | None,
    lam: float,
    learned_bias: bool = True,
    *,
    held: Code | np.ndarray | Tensor | None = None,
    splits: bool = True,
    wide: bool = True,
) -> BlockCertificates:
    """Audit a dictionary of blocks with signed codes against E‖x - x̂‖² + 2λ E Σ ‖z_g‖.

    A block is ``unstable`` when a move against it, with one other block or with the bias alone, keeps every
    reconstruction and lowers the loss: `removable_loss` = λγ²/q is removed for certain by the witness at `step`
    (`moves.apply_move`). Every other block is ``unknown``: no pair proves it unstable, and the joint certificate over
    all partners, which could prove it stable, is out of scope here.

    Parameters
    ----------
    rows
        (n, d) rows, or a `RowSource`, in the order of the codes.
    code
        Codes of these rows: `Code`, or dense (n, G, b). They are taken as signed: nonnegative scalars, as of most SAEs,
        belong to ``certify``.
    frames
        (G, b, d), b ≤ d. Brought to orthonormal rows with a note when they are not.
    bias
        (d,), or ``None`` for zero.
    lam
        λ > 0, units of x. Verdicts do not depend on it, numbers in loss units do.
    learned_bias
        Whether the bias is free to move: moves may then use it, and K3 and the balance law apply.
    held
        Codes of rows that are not among these. With them ``unstable`` also needs a mean gain above zero there, at 95 %
        by a one-sided t-test for each block (no correction for many blocks).
    splits, wide
        Whether to compute split and widen gains and the wide limit: passes over the rows.

    Raises
    ------
    UserError
        For shapes that do not fit, integers, NaN, and a `lam` that is not positive.
    """
    lam, x = check_lam(lam), rows if isinstance(rows, RowSource) else as_matrix(rows, "rows")
    blocks = read(frames, bias, code, len(x))
    width = x.d_in if isinstance(x, RowSource) else x.shape[1]
    if width != blocks.bias.size:
        raise refuse(
            "rows", f"be of width {blocks.bias.size}, as the frames", width, "Use the hook they were fitted on."
        )
    away = None if held is None else read(frames, bias, held)
    total = conditions.audit(x, blocks, lam)
    found = survey(blocks)
    features = tuple(_decide(g, blocks, away, found, total, lam, learned_bias) for g in range(blocks.n_blocks))
    numbers = _numbers(features, found, blocks, total, lam)
    if splits:
        features = _split(features, numbers, x, blocks, lam)
    if wide:
        numbers |= _wide(x, total, numbers, lam, learned_bias)
    kkt = conditions.outcomes(total, blocks.frames, lam, learned_bias)
    fresh = () if away is not None else (FRESH,)
    far = far_from_optimal(kkt, lam, learned_bias, "optimality.blocks.resolve")
    return BlockCertificates(features, numbers, kkt, (*blocks.notes, *NOTES, *fresh, *far))


def move_of(feature: FeatureCertificate) -> Move | None:
    """Return the move of an unstable block, for `moves.apply_move` at its `step`; ``None`` for every other block."""
    if feature.witness is None:
        return None
    stacked, p = feature.witness.weight, len(feature.witness.index)
    b = stacked.shape[1]
    return Move(feature.feature, tuple(feature.witness.index.tolist()), stacked[:-1].reshape(p, b, b), stacked[-1])


def _decide(
    g: int,
    blocks: Blocks,
    held: Blocks | None,
    found: Survey,
    total: conditions.Sums,
    lam: float,
    learned_bias: bool,
) -> FeatureCertificate:
    n = total.n
    plain = FeatureCertificate(
        feature=g,
        block=g,
        side=0,
        verdict="unknown",
        why=OPEN if total.count[g] else "it is never on in these rows",
        removable_loss=0.0,
        violation_lower=0.0,
        violation_upper=math.inf,
        strain=float(found.strain[g]),
        strain_partner=int(found.strained_by[g]),
        density=float(total.count[g] / n),
        antipode_gain=float(total.again[g] / n),
    )
    best: tuple[Move, Promise] | None = None
    tries: list[int | None] = [*found.candidates.get(g, [])]
    if learned_bias and total.count[g] and np.linalg.norm(total.direction[g]) > n - total.count[g]:
        tries.append(None)
    for h in tries:
        move, promised = pair_move(blocks, h, g, learned_bias)
        if promised.gain > (best[1].gain if best else 0.0):
            best = move, promised
    if best is None:
        return plain
    return _outside(plain, blocks, held, *best, lam)


def _outside(
    plain: FeatureCertificate, blocks: Blocks, held: Blocks | None, move: Move, promised: Promise, lam: float
) -> FeatureCertificate:
    lower = math.sqrt(promised.gain)
    if held is not None:
        p = held_out_p(held, move)
        if p > 0.05:
            why = f"a move that pays on these rows does not on held-out ones: p = {p:.2g}"
            return replace(plain, why=why, violation_lower=lower)
    stacked = np.concatenate([move.maps.reshape(-1, len(move.offset)), move.offset[None]])
    witness = Witness("move", np.array(move.partners, np.int64), stacked)
    return replace(
        plain,
        verdict="unstable",
        why=_words(blocks, move),
        removable_loss=lam * promised.gain,
        violation_lower=lower,
        partners=move.partners,
        witness=witness,
        step=promised.step,
    )


def _words(blocks: Blocks, move: Move) -> str:
    """How a move reads."""
    if not move.partners:
        return "it points one way on most rows: the bias can take that over"
    h = move.partners[0]
    rows, own = blocks.rows[blocks.of(h)], blocks.rows[blocks.of(move.block)]
    together = len(np.intersect1d(rows, own)) / max(len(rows), 1)
    over, released = taken(blocks, move)
    verb = "would absorb it" if over >= released else "holds too much of it and would release it"
    return f"{h} {verb}: {together:.1%} of the rows of {h} are rows of it too"


def _numbers(
    features: tuple[FeatureCertificate, ...], found: Survey, blocks: Blocks, s: conditions.Sums, lam: float
) -> dict[str, Outcome]:
    live = [f for f in features if f.density > 0]
    loss, best = (s.square + 2 * lam * s.mass) / s.n, max((f.removable_loss for f in features), default=0.0)
    made: dict[str, Outcome] = {}
    for verdict in ("stable", "unstable", "unknown"):
        count = sum(f.verdict == verdict for f in live)
        low, high = wilson(count, len(live)) if live else (None, None)
        value = count / len(live) if live else None
        note = f"{count:,} of {len(live):,} live blocks" if live else "no block is ever on"
        made[verdict] = Outcome(verdict, value, "share", low, high, n=len(live), n_unit="blocks", note=note)
    dead = (len(features) - len(live)) / len(features)
    made["dead_share"] = Outcome("dead_share", dead, "share", better="lower", n=len(features), n_unit="blocks")
    made["loss"] = Outcome("loss", loss, "‖x‖²", better="lower", note="E‖x - x̂‖² + 2λ E Σ ‖z_g‖")
    made["reconstruction"] = Outcome("reconstruction", s.square / s.n, "‖x‖²", better="lower")
    made["l0"] = Outcome("l0", s.entries / s.n, "blocks/row")
    share = best / loss if loss > 0 else None
    note = "loss that the best single certificate removes for certain, share of the loss"
    note = "the loss is zero" if share is None else note
    made["removable"] = Outcome("removable", share, "share", better="lower", note=note)
    rank = gains.effective_rank(s.spread / s.n)
    if live:
        note = f"mean over live blocks of exp(entropy) of the spectrum of E[zᵀz/‖z‖], of {blocks.size}"
        made["effective_rank"] = Outcome("effective_rank", float(rank[rank > 0].mean()), "dimensions", note=note)
    unit = "pairs"
    said = f"ordered pairs that no tilt can use; {found.silent:,} of them are never on together"
    made["stable_pairs"] = Outcome("stable_pairs", float(found.counts[1] + found.silent), unit, note=said)
    made["unstable_pairs"] = Outcome("unstable_pairs", float(found.counts[-1]), unit, better="lower")
    made["open_pairs"] = Outcome("open_pairs", float(found.counts[0]), unit, note="between both screens")
    note = (
        "no two blocks are on together" if found.sharing[0] < 0 else f"blocks {found.sharing[0]} and {found.sharing[1]}"
    )
    note = f"largest loss that one block for two removes at least, at twice the size; {note}"
    made["merge_gain"] = Outcome("merge_gain", 2 * lam * found.shared, "‖x‖²", note=note)
    return made


def _split(
    features: tuple[FeatureCertificate, ...],
    numbers: dict[str, Outcome],
    rows: np.ndarray | RowSource,
    blocks: Blocks,
    lam: float,
) -> tuple[FeatureCertificate, ...]:
    def read_again():
        return batches(rows, len(blocks.directions))

    split, _ = gains.split_gains(read_again, blocks, lam)
    widen, _ = gains.widen_gains(read_again, blocks, lam)
    most = int(widen.argmax())
    note = f"largest loss that one more direction in a block removes at least; block {most}"
    numbers["widen_gain"] = Outcome("widen_gain", float(widen[most]), "‖x‖²", note=note)
    return tuple(replace(f, split_gain=float(split[f.feature])) for f in features)


def _wide(
    rows: np.ndarray | RowSource,
    s: conditions.Sums,
    numbers: Mapping[str, Outcome],
    lam: float,
    learned_bias: bool,
) -> dict[str, Outcome]:
    bound, note = s.bound / s.n, "no dictionary with this bias is below, of whatever width and block size"
    if learned_bias:
        limit = wide_limit(rows, lam, tol=1e-6, most=200)
        bound = max(limit.loss - limit.gap, 0.0)
        note = "no dictionary of any width, block size and bias is below"
    loss = numbers["loss"].value or 0.0
    return {
        "wide_bound": Outcome("wide_bound", bound, "‖x‖²", note=note),
        "gap": Outcome("gap", loss - bound, "‖x‖²", better="lower", note="loss above the wide bound"),
    }
