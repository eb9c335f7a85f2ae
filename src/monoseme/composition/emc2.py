"""EMC2: the share of an image network's weights that can be moved so that the picture still shows the thing.

Every weight is moved, one at a time; the picture is rendered, exactly, and judged (arXiv 2606.19941). Three numbers
belong beside the fraction, or it can be had for nothing: whether the picture passes at all before anything is moved,
the fraction among pictures that visibly changed, and the share that did not change at all. A dense network spreads its
picture over many weights, so each moves it less: at equal steps it looks better than it is. `Delta("visible", ...)`
moves every weight as far as a given change of the picture takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from monoseme.composition.genome import Genome
from monoseme.composition.incremental import Move, Rendering
from monoseme.composition.judged import Judged
from monoseme.composition.judges.protocol import Answer, Judge, eight_bit, picture_key
from monoseme.composition.layerize import COPY, layerize
from monoseme.composition.moves import Delta, moves_of
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse
from monoseme.core.files import only_writer
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import ratio_interval, wilson

__all__ = ["Emc2", "WeightScore", "emc2"]

VISIBLE = 1 / 255  # RMS below which nobody sees a change
HELD = 256  # pictures in memory until they are judged


@dataclass(frozen=True)
class WeightScore:
    """One weight, moved once.

    Attributes
    ----------
    move
        Which, and by how much.
    change
        Root mean square of the change of pixels, 0…1.
    answer, score
        The judge's.
    label
        What the weight is known to do, where the network says so; or ``"copy"``.
    """

    move: Move
    change: float
    answer: Answer
    score: float | None
    label: str


@dataclass(frozen=True, eq=False)
class Emc2:
    """What a network scores.

    Attributes
    ----------
    score
        Share of moved weights after which the judge says yes, with Wilson's interval; higher is better. Invalid answers
        count neither way.
    score_visible
        The same among pictures that changed by more than `VISIBLE`.
    unchanged_share
        Share of moved weights that leave every pixel as it was, in eight bits.
    baseline_passes
        Whether the picture passes before anything is moved. If not, the score means nothing.
    per_weight
        Every weight that was moved.
    cost
        Pictures rendered, pictures judged (each different one once), answers read from earlier runs, seconds.
    """

    score: Outcome
    score_visible: Outcome
    unchanged_share: Outcome
    baseline_passes: bool
    per_weight: tuple[WeightScore, ...]
    cost: dict[str, float]

    def layers(self) -> list[tuple[int, Outcome]]:
        """The score of every layer's weights."""
        found = sorted({one.move.layer for one in self.per_weight})
        return [(layer, _share("score", [w for w in self.per_weight if w.move.layer == layer])) for layer in found]

    def by_change(self, edges: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4)) -> list[tuple[float, float, Outcome]]:
        """The score among pictures whose change lies between two edges: how networks of unlike sizes compare."""
        found = []
        for low, high in pairwise(edges):
            inside = [w for w in self.per_weight if low <= w.change < high]
            found.append((low, high, _share("score", inside)))
        return found

    def table(self) -> str:
        """Text: the numbers, then a line a layer."""
        lines = [
            f"picture passes as it is: {'yes' if self.baseline_passes else 'NO, so the score means nothing'}",
            *(f"{one.name:<16} {one}" for one in (self.score, self.score_visible, self.unchanged_share)),
            *(f"layer {layer:<10} {one}" for layer, one in self.layers()),
            ", ".join(f"{name} {value:,.6g}" for name, value in self.cost.items()),
        ]
        return "\n".join(lines)


def emc2(
    network: ImageNetwork | Genome,
    judge: Judge,
    delta: Delta | float = 0.5,
    *,
    over: str | None = None,
    sample: int | None = None,
    draws: int = 1,
    size: int = 128,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Emc2:
    """Move every weight that is not zero, render, judge, score.

    Parameters
    ----------
    network
        A network, or a genome, which is layerised.
    judge
        Says whether the thing is still there.
    delta
        How far weights are moved: a number is absolute; see `Delta`. Each goes up or down, as the seed draws.
    over
        ``"links"``: only the links of the genome behind a layerised network; ``"matrix"``: all entries, so the copies
        that only pass a value on too. By default links for a genome, the matrix for a network.
    sample
        At most so many weights, drawn without repetition.
    draws
        Moves of each weight: the second is the first one's opposite, further ones have a size drawn between 0 and
        `delta`. Intervals are over weights, by bootstrap where a weight has several moves.
    size
        Side of the pictures.
    out
        Folder in which verdicts are kept: a run that is killed goes on there and judges no picture twice.
    progress
        Called with weights done and weights in all.

    Raises
    ------
    UserError
        A network without weights that are not zero; links asked of a network that has none; a second run in `out`.
    """
    start = time.perf_counter()
    net = layerize(network) if isinstance(network, Genome) else network
    rendering = Rendering(net, size)
    entries = _entries(net, over or ("links" if isinstance(network, Genome) else "matrix"))
    step = delta if isinstance(delta, Delta) else Delta("absolute", delta)
    moves = moves_of(rendering, entries, step, sample, seed, draws)
    if out is None:
        return _scored(net, rendering, Judged(judge), moves, start, progress)
    Path(out).mkdir(parents=True, exist_ok=True)
    with only_writer(Path(out)):
        return _scored(net, rendering, Judged(judge, Path(out)), moves, start, progress)


def _entries(net: ImageNetwork, over: str) -> list[tuple[int, int, int]]:
    entries = net.entries()
    if over == "links":
        entries = [entry for entry in entries if net.origin.get(entry, COPY) != COPY]
    elif over != "matrix":
        raise refuse("over", "be 'links' or 'matrix'", repr(over), "Links are a genome's.")
    if not entries:
        fix = "Was it pruned away?" if over == "matrix" else "Use over='matrix' for a network that was not layerised."
        raise refuse("network", f"have weights that are not zero ({over})", "none", fix)
    return entries


def _scored(
    net: ImageNetwork,
    rendering: Rendering,
    judged: Judged,
    moves: Sequence[Move],
    start: float,
    progress: Callable[[int, int], None] | None,
) -> Emc2:
    before = rendering.picture
    base = eight_bit(before)
    (own,) = judged.of([base])
    read = len(judged.known) - judged.asked
    done: list[WeightScore] = []
    unchanged, base_key = 0, picture_key(base)
    seen = {base_key}
    held: list[tuple[Move, float, UInt8[np.ndarray, "h w 3"]]] = []

    def empty() -> None:
        for (move, change, _), verdict in zip(held, judged.of([pixels for *_, pixels in held]), strict=True):
            entry = (move.layer, move.to, move.from_)
            label = net.labels.get(entry, COPY if net.origin.get(entry) == COPY else "")
            done.append(WeightScore(move, change, verdict.answer, verdict.score, label))
        held.clear()
        if progress is not None:
            progress(len(done), len(moves))

    for move, picture in rendering.moved(moves):
        pixels = eight_bit(picture)
        key = picture_key(pixels)
        unchanged += key == base_key
        seen.add(key)
        held.append((move, float((picture - before).square().mean().sqrt()), pixels))
        if len(held) == HELD:
            empty()
    empty()
    low, high = wilson(unchanged, len(done))
    share = Outcome("unchanged_share", unchanged / len(done), "share", low, high, n=len(done), n_unit="moves")
    return Emc2(
        _share("score", done),
        _share("score_visible", [w for w in done if w.change > VISIBLE]),
        share,
        own.answer == "yes",
        tuple(done),
        {
            "rendered": float(len(done) + 1),
            "different": float(len(seen)),
            "judged": float(judged.asked),
            "read": float(read),
            "seconds": time.perf_counter() - start,
        },
    )


def _share(name: str, weights: Sequence[WeightScore]) -> Outcome:
    """Share of yes among answers: Wilson's interval, or over weights where one has several moves. Unsure is no."""
    valid = [w for w in weights if w.answer != "invalid"]
    if not valid:
        return unknown(name, "share", "no valid answer" if weights else "no such weight")
    hits = sum(w.answer == "yes" for w in valid)
    by_weight: dict[tuple[int, int, int], list[bool]] = {}
    for w in valid:
        by_weight.setdefault((w.move.layer, w.move.to, w.move.from_), []).append(w.answer == "yes")
    n = len(by_weight)
    if n == len(valid):
        low, high = wilson(hits, n)
    else:
        yes, all_ = (np.array([f(v) for v in by_weight.values()], dtype=float) for f in (sum, len))
        low, high = ratio_interval(yes, all_)
    lost = len(weights) - len(valid)
    note = f"{lost} invalid answers left out" if lost else ""
    ends = (low, high) if np.isfinite(low) else (None, None)
    return Outcome(name, hits / len(valid), "share", *ends, better="higher", n=n, n_unit="weights", note=note)
