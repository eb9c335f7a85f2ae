"""What a vision model would have to see for a block to say a code: pictures by gradient ascent, along a walk.

For a waypoint w the ascent raises the mean over tokens of ⟨x - bias, w D_g⟩ ÷ ‖w D_g‖: since w D_g lies in the block's
span, this is the inner product with the contribution that the block would make without its gate. Where the gate and the
other blocks leave it, is read afterwards through the featurizer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes
from monoseme.core.seeds import rng
from monoseme.models import HookedModel
from monoseme.steering.fourier import KINDS, first, paint
from monoseme.steering.intervene import Tokens, positions

__all__ = ["Painting", "PictureOf", "ascend", "picture_of"]

SIDE = 224
Score = Callable[[Float[Tensor, "n 3 h w"]], Float[Tensor, " n"]]


@dataclass(frozen=True)
class Painting:
    """How pictures are made.

    Attributes
    ----------
    kind
        ``"phase"``: only phases are free, amplitudes are a photograph's. ``"spectrum"``: coefficients are free.
    steps, rate
        Of Adam.
    jitter
        Before every step pictures are moved by up to so many pixels each way, around the edge: what depends on a single
        pixel's place does not survive.
    side
        Of the square pictures; by default what the model's preprocessing gives, or 224.
    seed
        Of the beginning, the same for all waypoints, and of the jitter. The same seed gives the same pictures.
    batch_size
        Pictures at once.
    """

    kind: str = "phase"
    steps: int = 256
    rate: float = 0.05
    jitter: int = 8
    side: int | None = None
    seed: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise refuse("kind", f"be one of {', '.join(KINDS)}", repr(self.kind), "phase is the default.")
        for name, least in (("steps", 1), ("jitter", 0), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise refuse(name, f"be at least {least}", getattr(self, name), "Leave it out for the default.")
        if not self.rate > 0:
            raise refuse("rate", "be positive", self.rate, "0.05 is the default.")


@dataclass(frozen=True, eq=False)
class PictureOf:
    """A picture, and how close it came.

    Attributes
    ----------
    picture
        (h, w, 3) in 0…1.
    waypoint
        The code that was asked for.
    code
        The code that the featurizer gives, mean over the tokens; zero where the block does not fire.
    cosine
        Of the two codes' contributions, 1 is the same direction; None when the block does not fire at all.
    fires
        Share of the tokens on which the block fires.
    start, reached
        Objective of the beginning, a random picture, and of the end: mean projection on w D_g, in the units of the
        activations. Higher is better.
    """

    picture: Float32[np.ndarray, "h w 3"]
    waypoint: Float64[np.ndarray, " b"]
    code: Float64[np.ndarray, " b"]
    cosine: float | None
    fires: float
    start: float
    reached: float


def picture_of(
    model: HookedModel,
    at: str,
    f: Featurizes,
    block: int,
    way: Float[np.ndarray, "n b"] | Float[Tensor, "n b"],
    how: Painting | None = None,
    *,
    tokens: Tokens = None,
    prepare: Callable[[Tensor], Tensor] | None = None,
) -> list[PictureOf]:
    """One picture a waypoint.

    Parameters
    ----------
    model, at
        A vision model and the hook that `f` was fitted on.
    f, block
        The featurizer and the block.
    way
        Codes of the block, for example of `walk`.
    how
        See `Painting`.
    tokens
        Which of the hook's tokens are to say the code; by default all that are patches.
    prepare
        Turns (n, 3, h, w) pictures in 0…1 into the model's input, differentiably. By default read off the model's
        preprocessing, which must be one shift and scale a channel; without one, pictures are the input.

    Raises
    ------
    UserError
        A block that is not there, codes of another size or without length, rows of another width, preprocessing that
        does more, tokens that are not there.
    """
    how = Painting() if how is None else how
    codes = torch.as_tensor(way).detach().cpu().double()
    target = _contributions(f, block, codes)
    prepare, side = (prepare, how.side or SIDE) if prepare is not None else _prepared(model, how.side)
    read = _Reader(model, at, prepare, tokens, f.bias.detach().cpu().double())
    found = []
    for i in range(0, len(target), how.batch_size):
        unit = F.normalize(target[i : i + how.batch_size], dim=1)

        def score(pictures: Tensor, unit: Tensor = unit) -> Tensor:
            return ((read(pictures, torch.is_grad_enabled()).mean(1) - read.bias) * unit).sum(1)

        pictures, start, reached = ascend(first(how.kind, len(unit), side, side, how.seed), score, how, side)
        for j, rows in enumerate(read(pictures, False)):
            code, cosine, fires = _said(f, block, rows, target[i + j])
            shown = pictures[j].movedim(0, -1).contiguous().numpy()
            ends = float(start[j]), float(reached[j])
            found.append(PictureOf(shown, codes[i + j].numpy(), code, cosine, fires, *ends))
    return found


def ascend(
    theta: Tensor, score: Score, how: Painting, width: int
) -> tuple[Float[Tensor, "n 3 h w"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Adam on the parameters of pictures (see `paint`), each by its own score.

    Returns
    -------
    pictures, start, reached
        The last pictures; scores of the first and of the last ones, both without jitter.
    """
    theta = theta.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([theta], lr=how.rate)
    moves = rng(how.seed, "jitter").integers(-how.jitter, how.jitter, (how.steps, 2), endpoint=True).tolist()
    with torch.no_grad():
        start = score(paint(theta, how.kind, width)).detach()
    for move in moves:
        pictures = paint(theta, how.kind, width).roll(move, (2, 3))
        # of theta alone: the model's own gradients are left as they are
        (theta.grad,) = torch.autograd.grad(-score(pictures).sum(), [theta])
        optimiser.step()
    with torch.no_grad():
        pictures = paint(theta, how.kind, width)
        return pictures, start, score(pictures).detach()


class _Reader:
    """Rows of the chosen tokens that pictures give, in double precision on CPU."""

    def __init__(
        self, model: HookedModel, at: str, prepare: Callable[[Tensor], Tensor], tokens: Tokens, bias: Tensor
    ) -> None:
        self.model, self.at, self.prepare, self.tokens, self.bias = model, at, prepare, tokens, bias

    def __call__(self, pictures: Tensor, grad: bool) -> Float[Tensor, "n T d"]:
        x = self.model.run(self.prepare(pictures).to(self.model.device, self.model.dtype), at=self.at, grad=grad)
        if x.shape[2] != len(self.bias):
            raise refuse("at", f"give rows of width {len(self.bias)}", x.shape[2], "Use the hook of the featurizer.")
        grid = self.model.grid(self.at)
        chosen = slice(grid.special, None) if grid is not None and self.tokens is None else self.tokens
        return x[:, positions(chosen, x.shape[1])].cpu().double()


def _contributions(f: Featurizes, block: int, codes: Tensor) -> Float[Tensor, "n d"]:
    """W D_g of every waypoint."""
    atoms = f.atoms.detach().cpu().double()
    if not 0 <= block < len(atoms):
        raise refuse("block", f"lie in 0..{len(atoms) - 1}", block, "Say which block of the featurizer.")
    if codes.ndim != 2 or codes.shape[1] != atoms.shape[1] or not len(codes):
        rule = f"be (n, {atoms.shape[1]}) codes of the block"
        raise refuse("way", rule, tuple(codes.shape), "For example what walk(...) gives.")
    target = codes @ atoms[block]
    if not bool((target.norm(dim=1) > 0).all() & target.isfinite().all()):
        raise refuse("way", "be codes with a direction", "one of length 0, or not finite", "Leave it out.")
    return target


def _prepared(model: HookedModel, side: int | None) -> tuple[Callable[[Tensor], Tensor], int]:
    """What the model's preprocessing does to a square picture of its own size: a shift and a scale a channel."""
    make = model.preprocess
    if make is None:
        return (lambda pictures: pictures), side or SIDE
    side = make(np.zeros((side or SIDE, side or SIDE, 3), np.uint8)).shape[-1]
    flat = (np.full((side, side, 3), level, np.uint8) for level in (0, 255))
    low, high = (make(picture).double().mean((1, 2))[:, None, None] for picture in flat)
    tried = rng(0, "prepared").integers(0, 256, (side, side, 3), dtype=np.uint8)
    wanted = low + (high - low) * torch.from_numpy(tried / 255).movedim(-1, 0)
    got = make(tried).double()
    if got.shape != wanted.shape or float((got - wanted).abs().max()) > 1e-3 * float((high - low).abs().max()):
        rule = "prepare pictures by one shift and scale a channel"
        raise refuse("model", rule, f"{model.name}, which does more", "Pass prepare=, or another side.")
    return (lambda pictures: low.to(pictures) + (high - low).to(pictures) * pictures), side


def _said(
    f: Featurizes, block: int, rows: Float[Tensor, "T d"], wanted: Float[Tensor, " d"]
) -> tuple[Float64[np.ndarray, " b"], float | None, float]:
    """Mean code of the block over rows, cosine of its contribution with the wanted one, share of rows it fires on."""
    atoms = f.atoms.detach()
    code = f.encode(rows.to(atoms))
    values = code.values[code.entries_of(block)].detach().cpu().double()
    mean = values.sum(0) / len(rows)
    if not len(values):
        return mean.numpy(), None, 0.0
    cosine = F.cosine_similarity(mean @ atoms[block].cpu().double(), wanted, dim=0)
    return mean.numpy(), float(cosine), len(values) / len(rows)
