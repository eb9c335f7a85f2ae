"""A small diffusion model of pictures, to steer where no large one is at hand: a U-Net, its noise, its sampler.

x_t = α x + σ ε with α = cos(π t / 2), σ = sin(π t / 2), t in 0…1; the network predicts v = α ε - σ x (Salimans & Ho,
arXiv 2202.00512). The sampler is DDIM without noise: from one seed one picture, so that what an edit changes is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["UNet", "denoising_loss", "noised", "sample_pictures", "schedule"]

FREQUENCIES = 16
Denoiser = Callable[[tuple[Tensor, Tensor, Tensor]], Tensor]  # (x_t, t, label) → v


class Residual(nn.Module):
    """Two convolutions with a scale and shift from time and class between them."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm1, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)
        self.modulate = nn.Linear(embedding, 2 * channels)
        nn.init.zeros_(self.second.weight)  # a block begins as the identity

    def forward(self, x: Float[Tensor, "B c h w"], e: Float[Tensor, "B e"]) -> Float[Tensor, "B c h w"]:
        """Add what the block has to say."""
        scale, shift = self.modulate(e)[:, :, None, None].chunk(2, 1)
        h = self.first(F.silu(self.norm1(x)))
        h = self.norm2(h) * (1 + scale) + shift
        return x + self.second(F.silu(h))


class UNet(nn.Module):
    """Two levels. Hooks worth a look: ``down``, ``mid1`` and ``mid2`` (half the side), ``up``.

    Parameters
    ----------
    channels
        At full size; twice as many at half. A multiple of 8.
    classes
        Number of labels.
    """

    def __init__(self, channels: int = 32, classes: int = 10) -> None:
        super().__init__()
        if channels < 8 or channels % 8:
            raise refuse("channels", "be a multiple of 8", channels, "32 paints digits.")
        wide, embedding = 2 * channels, 4 * channels
        self.embed_time = nn.Sequential(
            nn.Linear(2 * FREQUENCIES, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )
        self.embed_class = nn.Embedding(classes, embedding)
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down = Residual(channels, embedding)
        self.halve = nn.Conv2d(channels, wide, 2, stride=2)
        self.mid1, self.mid2 = Residual(wide, embedding), Residual(wide, embedding)
        self.grow = nn.ConvTranspose2d(wide, channels, 2, stride=2)
        self.join = nn.Conv2d(2 * channels, channels, 1)
        self.up = Residual(channels, embedding)
        self.leave = nn.Sequential(nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))

    def forward(self, x: Float[Tensor, "B 3 h w"], t: Float[Tensor, " B"], label: Int[Tensor, " B"]) -> Tensor:
        """V for noised pictures in -1…1 of even side, times and labels."""
        if x.shape[2] % 2 or x.shape[3] % 2:
            raise refuse("x", "have even sides", tuple(x.shape), "Pad by a pixel.")
        angles = t[:, None] * torch.exp(torch.linspace(0, math.log(1000), FREQUENCIES, device=x.device))
        e = self.embed_time(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype)) + self.embed_class(label)
        e = F.silu(e)
        high = self.down(self.enter(x), e)
        low = self.mid2(self.mid1(self.halve(high), e), e)
        joined = self.join(torch.cat([self.grow(low), high], 1))
        return self.leave(self.up(joined, e))


def schedule(t: Float[Tensor, " B"]) -> tuple[Float[Tensor, "B 1 1 1"], Float[Tensor, "B 1 1 1"]]:
    """α and σ at times 0…1."""
    angle = t[:, None, None, None] * (math.pi / 2)
    return angle.cos(), angle.sin()


def noised(
    x: Float[Tensor, "B 3 h w"], t: Float[Tensor, " B"], noise: Float[Tensor, "B 3 h w"]
) -> tuple[Float[Tensor, "B 3 h w"], Float[Tensor, "B 3 h w"]]:
    """Noised pictures, and the v that a network should say."""
    alpha, sigma = schedule(t)
    return alpha * x + sigma * noise, alpha * noise - sigma * x


def denoising_loss(
    net: nn.Module, x: Float[Tensor, "B 3 h w"], label: Int[Tensor, " B"], stream: torch.Generator
) -> Float[Tensor, ""]:
    """Mean squared error of v at times drawn uniformly; pictures in -1…1; lower is better."""
    t = torch.rand(len(x), generator=stream).to(x)
    noise = torch.randn(x.shape, generator=stream).to(x)
    mixed, v = noised(x, t, noise)
    return (net(mixed, t, label) - v).square().mean()


@torch.no_grad()
def sample_pictures(
    denoise: Denoiser, label: Int[Tensor, " B"], side: int, *, steps: int = 24, seed: int = 0
) -> Float[Tensor, "B side side 3"]:
    """Pictures in 0…1 by deterministic DDIM from noise, one forward pass a step, from t = 1 down.

    Parameters
    ----------
    denoise
        A `HookedModel` of a `UNet`, or any function of (x_t, t, label). Edits in force act in every step, or in those
        that `steering.steer` was given.
    label
        Class of every picture.
    seed
        Of the noise: the same for the same seed, whatever is edited.
    """
    if steps < 1:
        raise refuse("steps", "be at least 1", steps, "24 is enough for digits.")
    x = torch.randn((len(label), 3, side, side), generator=generator(seed, "diffusion"))
    times = torch.linspace(1, 0, steps + 1)
    for now, then in itertools.pairwise(times):
        t = now.expand(len(label))
        v = denoise((x, t, label))
        alpha, sigma = schedule(t)
        clean, noise = alpha * x - sigma * v, sigma * x + alpha * v
        alpha, sigma = schedule(then.expand(len(label)))
        x = alpha * clean + sigma * noise
    return ((x.clamp(-1, 1) + 1) / 2).movedim(1, -1)
