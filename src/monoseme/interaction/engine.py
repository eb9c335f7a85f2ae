"""One pass over the data that gives the factors of every place: plan, run, add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import UserError, refuse
from monoseme.interaction.backward import Backward, frozen, stacked_rows
from monoseme.interaction.draws import Draws
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.forward import columns, jacobian, push
from monoseme.interaction.functions import Function
from monoseme.interaction.how import How
from monoseme.interaction.kept import KeptFactors
from monoseme.interaction.pieces import Piece, pieces
from monoseme.interaction.pilot import Pilot, pilot
from monoseme.interaction.places import Place
from monoseme.interaction.views import Windows
from monoseme.models import HookedModel

__all__ = ["Done", "Job", "collected"]

MOST = 32  # samples at once


@dataclass(frozen=True)
class Job:
    """What is asked of one pass."""

    model: HookedModel
    places: list[Place]
    function: Function
    side: str
    probes: int | None
    how: How


@dataclass(frozen=True)
class Done:
    """What a pass gave at each place, and what it was."""

    sums: list[FactorSums | KeptFactors]
    pilot: Pilot
    method: str
    passes: int
    chunk: int
    notes: tuple[str, ...]


def collected(job: Job, batches: Iterator[Piece]) -> Done:
    """Run the pass."""
    notes = _notes(job.model.module)
    first = next(batches, None)
    if first is None:
        raise refuse("inputs", "hold at least one batch", "none", "Is the iterator spent?")
    with frozen(job.model.module):
        seen = pilot(job.model, job.places, job.function, first)
        method, passes = _method(job, seen)
        try:
            runner = _Runner(job, seen, method)
            return runner.run(first, batches, passes, notes)
        except UserError as error:
            if method == "vjp" or job.how.method != "auto" or job.probes is not None or not _forward_missing(error):
                raise
            note = f"forward mode would cost {passes} passes but is not supported here; vjp instead"
            again = replace(job, how=replace(job.how, method="vjp"))
            return _Runner(again, seen, "vjp").run(first, batches, seen.outputs + 1, (*notes, note))


class _Runner:
    """Factors of piece after piece, into sums."""

    def __init__(self, job: Job, seen: Pilot, method: str) -> None:
        self.job, self.pilot, self.method = job, seen, method
        self.m = job.probes or seen.outputs
        self.draws = Draws(self.m, job.how.law, job.how.seed, "outputs") if job.probes else None
        self.tangents = [Draws(self.m, job.how.law, job.how.seed, "at", place.name) for place in job.places]
        keep = job.how.memory // (2 * len(job.places))
        self.sums: list[FactorSums | KeptFactors] = [
            FactorSums(width, keep) if 8 * width**2 <= keep else KeptFactors(width, keep) for width in self._widths()
        ]

    def run(self, first: Piece, batches: Iterator[Piece], passes: int, notes: tuple[str, ...]) -> Done:
        """All batches."""
        chunk = self.job.how.chunk or self._chunk()
        batch: Piece | None = first
        while batch is not None:
            for piece in pieces(batch, chunk):
                for sums, factors in zip(self.sums, self.factors(piece), strict=True):
                    sums.add(factors)
            batch = next(batches, None)
        for place, sums in zip(self.job.places, self.sums, strict=True):
            if not sums.finite:
                got = f"NaN or infinity at {place.name!r}"
                fix = "Look for NaN among the inputs and weights, and for 0/0 or √0 in the network."
                raise refuse("inputs", "give finite gradients", got, fix)
        return Done(self.sums, self.pilot, self.method, passes, chunk, notes)

    def factors(self, piece: Piece) -> Iterator[Float[Tensor, "n m D"]]:
        """Scaled factors at every place; each stack of rows is freed when the next is asked for."""
        job = self.job
        if job.side == "output" and job.probes:
            yield from (
                self._pushed(place, draws, piece) for place, draws in zip(job.places, self.tangents, strict=True)
            )
            return
        stacks = stacked_rows(job.places, self._gradients(piece), self.m)
        while stacks:
            rows = stacks.pop(0)
            rows = rows.float() if rows.element_size() < 4 else rows
            if job.side == "output":
                yield rows.flatten(2).mT
            elif job.how.positions == "mean" and rows.shape[2] > 1:
                yield rows.flatten(1, 2).div_(rows.shape[2] ** 0.5)
            else:
                yield rows.flatten(1, 2)

    def _gradients(self, piece: Piece) -> Iterator[list[Tensor]]:
        job = self.job
        if self.method == "jvp":
            pairs = zip(job.places, self.pilot.shapes, strict=True)
            outputs = self.pilot.outputs
            return columns([jacobian(job.model, p, job.function, piece, s, outputs) for p, s in pairs])
        graph = Backward(job.model, job.places, job.function, piece)
        if self.draws is None:
            return graph.every()
        return graph.sketched([self.draws.draw(j, tuple(graph.y.shape)) for j in range(self.m)])

    def _pushed(self, place: Place, draws: Draws, piece: Piece) -> Float[Tensor, "n m K"]:
        """Rows J v / √m."""

        def tangent(raw: Tensor, probe: int) -> Tensor:
            shape = tuple(place.samples_first(raw).shape)
            return place.samples_first(place.view.tangent(shape, lambda s: draws.draw(probe, s).to(raw)))

        found = [
            push(self.job.model, place, self.job.function, piece, lambda raw, j=j: tangent(raw, j))
            for j in range(self.m)
        ]
        rows = torch.stack(found, 1) / self.m**0.5
        return rows.float() if rows.element_size() < 4 else rows

    def _widths(self) -> list[int]:
        if self.job.side == "output":
            return [self.pilot.outputs] * len(self.job.places)
        return [width for _, width in self.pilot.rows]

    def _chunk(self) -> int:
        return max(1, min(MOST, self.job.how.memory // 2 // max(1, self.pilot.sample_bytes(self.m))))


def _method(job: Job, seen: Pilot) -> tuple[str, int]:
    """The method and its cost in forward passes."""
    asked, places = job.how.method, job.places
    if job.side == "output":
        for one in places:
            if isinstance(one.view, Windows):
                one.view.tangent((), torch.zeros)
    if job.probes is not None:
        method = "vjp" if job.side == "input" else "jvp"
        if asked not in ("auto", method):
            got = f"{asked!r} with probes on the {job.side} side"
            raise refuse("method", f"be 'auto' or {method!r} there", got, "Or ask for an exact one: probes=None.")
        return method, job.probes + 1 if method == "vjp" else 3 * job.probes * len(places)
    backward, forward = seen.outputs + 1, sum(2 * c + 1 for c in seen.coordinates)
    method = asked if asked != "auto" else "jvp" if forward < backward else "vjp"
    return method, forward if method == "jvp" else backward


def _forward_missing(error: UserError) -> bool:
    return str(error).startswith("method must be 'vjp'")


def _notes(module: nn.Module) -> tuple[str, ...]:
    norms = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    moody = [name for name, child in module.named_modules() if child.training and isinstance(child, norms)]
    return (f"run in evaluation mode; {moody[0]!r} was in training mode",) if moody else ()
