"""Exact pictures of a network in which one weight is moved, without running all of it again.

Up to the weight everything is as it was and is kept from one pass. Behind it only channels that the weight reaches can
change: with Δ the change of the channels S of a layer and T the channels that W joins to S,

    Δ_T = φ(z_T + Δ_S W[T, S]ᵀ) - a_T

so the first step is of rank one, a dense network costs about half of a full pass on average, and a sparse one only its
own links. Weights that lead into one neuron share all of that and are done together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.activations import Bank
from monoseme.composition.canvas import coordinates, to_rgb
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse

__all__ = ["Move", "Rendering", "naive"]

NUMBERS = 1 << 19  # of a layer's change at once: what a cache holds; fewer, and the calls cost more than the numbers
LEAST = 1 << 10  # pixels at once


@dataclass(frozen=True, order=True)
class Move:
    """A weight, (layer, to, from), and by how much it is moved."""

    layer: int
    to: int
    from_: int
    delta: float


@dataclass(frozen=True)
class _Reach:
    """One layer behind a neuron: channels T (a slice: all), the weights from the S before, and their activations."""

    channels: Tensor | slice
    weights: Float[Tensor, "T S"]
    bank: Bank | None


class Rendering:
    """A network's picture, and that of the network with one weight moved.

    Parameters
    ----------
    network
        Is not changed. Later changes of it do not show here.
    size
        Side of the picture.
    """

    @torch.no_grad()
    def __init__(self, network: ImageNetwork, size: int) -> None:
        self.size = size
        self.weights = [w.detach().clone() for w in network.matrices]
        self.banks = network.banks
        like = self.weights[0]
        # neurons first, so that those of some channels lie together
        self.values = [coordinates(size, like.dtype).to(like.device).T.contiguous()]
        self.sums = []
        for w, bank in zip(self.weights[:-1], self.banks, strict=True):
            self.sums.append(w @ self.values[-1])
            self.values.append(bank.in_place(self.sums[-1].clone()))
        self.raw = self.weights[-1] @ self.values[-1]
        self._reaches: dict[tuple[int, int], list[_Reach]] = {}

    @property
    def picture(self) -> Float[Tensor, "size size 3"]:
        """The picture as it is, RGB in 0…1."""
        return self._colours(self.raw)

    def moved(self, moves: Iterable[Move]) -> Iterator[tuple[Move, Float[Tensor, "size size 3"]]]:
        """Pictures with each weight moved by itself, sorted by layer and target."""
        ordered = sorted(moves)
        for move in ordered:
            self._check(move)
        for (layer, to), group in groupby(ordered, lambda move: (move.layer, move.to)):
            mine = list(group)
            many = max(1, NUMBERS // (min(LEAST, self.size**2) * self._widest(layer, to)))
            for start in range(0, len(mine), many):
                part = mine[start : start + many]
                yield from zip(part, self._colours(self._raw(layer, to, part)), strict=True)

    def _colours(self, raw: Float[Tensor, "*B outputs P"]) -> Float[Tensor, "*B size size 3"]:
        return to_rgb(raw.mT).reshape(*raw.shape[:-2], self.size, self.size, 3)

    def idle(self, move: Move) -> bool:
        """Whether the picture cannot change: nothing leads on to an output, or the source is 0 everywhere."""
        reach = self._reach(move.layer, move.to)
        leads = move.layer == len(self.weights) - 1 or bool(reach[-1].weights.any())
        return not leads or not bool(self.values[move.layer][move.from_].any())

    @torch.no_grad()
    def _raw(self, layer: int, to: int, moves: Sequence[Move]) -> Float[Tensor, "B outputs P"]:
        """Outputs for moves of weights into one neuron."""
        sources = torch.tensor([move.from_ for move in moves])
        shift = self.raw.new_tensor([move.delta for move in moves])[:, None] * self.values[layer][sources]  # (B, P)
        out = self.raw.expand(len(moves), -1, -1).clone()
        if layer == len(self.weights) - 1:
            out[:, to] += shift
            return out
        own, reach = Bank([self.banks[layer].names[to]]), self._reach(layer, to)
        pixels = max(LEAST, NUMBERS // (len(moves) * self._widest(layer, to)))
        for start in range(0, self.raw.shape[1], pixels):
            part = slice(start, start + pixels)
            z = (shift[:, part] + self.sums[layer][to, part])[:, None]
            change = own.in_place(z).sub_(self.values[layer + 1][to, part])
            for level, step in enumerate(reach, layer + 1):
                moved = step.weights @ change
                if step.bank is None:
                    out[:, :, part] += moved
                    break
                moved += self.sums[level][:, part][step.channels]
                change = step.bank.in_place(moved).sub_(self.values[level + 1][:, part][step.channels])
        return out

    def _reach(self, layer: int, to: int) -> list[_Reach]:
        """What a change of one neuron goes through."""
        if (layer, to) not in self._reaches:
            found: list[_Reach] = []
            channels = torch.tensor([to])
            for level in range(layer + 1, len(self.weights)):
                w = self.weights[level][:, channels]
                channels = torch.nonzero(w.any(1)).flatten()
                if level == len(self.weights) - 1 or len(channels) == 0:
                    found.append(
                        _Reach(slice(None), w if len(channels) else w.new_zeros(len(self.raw), w.shape[1]), None)
                    )
                    break
                names = [self.banks[level].names[c] for c in channels.tolist()]
                every = slice(None) if len(channels) == len(w) else channels
                found.append(_Reach(every, w[channels], Bank(names)))
            self._reaches[layer, to] = found
        return self._reaches[layer, to]

    def _widest(self, layer: int, to: int) -> int:
        return max([1, *(len(step.weights) for step in self._reach(layer, to))])

    def _check(self, move: Move) -> None:
        inside = 0 <= move.layer < len(self.weights)
        if inside:
            rows, columns = self.weights[move.layer].shape
            inside = 0 <= move.to < rows and 0 <= move.from_ < columns
        if not inside or not abs(move.delta) < float("inf"):
            raise refuse("moves", "be of weights of the network, by finite amounts", move, "See network.entries().")


@torch.no_grad()
def naive(network: ImageNetwork, move: Move, size: int) -> Float[Tensor, "size size 3"]:
    """The slow twin: move the weight, render, put it back."""
    weight = network.weights[move.layer]
    before = weight[move.to, move.from_].clone()
    try:
        weight[move.to, move.from_] = before + move.delta
        return network.render(size)
    finally:
        weight[move.to, move.from_] = before
