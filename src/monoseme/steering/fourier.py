"""Pictures whose parameters are Fourier coefficients, of the spectrum and the colours of photographs.

Amplitudes of photographs fall about as 1 ÷ frequency. Either they are fixed at that and only phases are free, so that a
picture cannot fill with fine patterns (Fel et al. 2023, arXiv 2306.06805), or coefficients are free in units of it
(Olah et al. 2017). Colours are opponent axes: luminance, blue against yellow, red against green.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator

__all__ = ["KINDS", "amplitudes", "first", "opponent", "paint"]

KINDS = ("phase", "spectrum")
# rows: luminance, blue-yellow, red-green; standard deviations over the photographs inside installed packages
AXES = ((3**-0.5,) * 3, (6**-0.5, 6**-0.5, -2 * 6**-0.5), (2**-0.5, -(2**-0.5), 0.0))
SPREAD = (0.31, 0.08, 0.08)
FAINT = 0.1  # share of a photograph's contrast at which free coefficients begin


def amplitudes(height: int, width: int) -> Float[Tensor, "h k"]:
    """1 ÷ frequency for `torch.fft.rfft2` with ``norm="ortho"``, scaled to pictures of variance 1 about 0."""
    down, across = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)
    raw = 1 / torch.hypot(down, across).clamp(min=1 / max(height, width))
    # a column stands for two, itself and its mirror image; of one that mirrors itself irfft2 takes the symmetric part,
    # which at random phases has half the power
    counts = torch.full_like(across, 2.0)
    counts[0] = 0.5
    if width % 2 == 0:
        counts[-1] = 0.5
    return raw * math.sqrt(height * width / float((counts * raw.square()).sum()))


def first(kind: str, n: int, height: int, width: int, seed: int) -> Tensor:
    """Parameters to begin with, the same for all n pictures: random phases, or faint random coefficients."""
    _check(kind)
    shape = (1, 3, height, width // 2 + 1)
    stream = generator(seed, "picture", kind)
    if kind == "phase":
        drawn = 2 * math.pi * torch.rand(shape, generator=stream)
    else:
        drawn = FAINT * torch.randn((*shape, 2), generator=stream)
    return drawn.repeat(n, *[1] * (drawn.ndim - 1))


def paint(theta: Tensor, kind: str, width: int) -> Float[Tensor, "n 3 h w"]:
    """Pictures in 0…1 of parameters.

    Parameters
    ----------
    theta
        ``"phase"``: angles (n, 3, h, w // 2 + 1). ``"spectrum"``: (n, 3, h, w // 2 + 1, 2), real and imaginary parts in
        units of a photograph's amplitudes.
    kind
        Which.
    width
        Of the pictures.
    """
    _check(kind)
    scale = amplitudes(theta.shape[2], width).to(theta)
    if kind == "phase":
        coefficients = torch.polar(scale.expand_as(theta).contiguous(), theta)
    else:
        coefficients = torch.view_as_complex(theta.contiguous()) * (scale / math.sqrt(2))
    maps = torch.fft.irfft2(coefficients, s=(theta.shape[2], width), norm="ortho")
    weights = torch.tensor(AXES).to(theta) * torch.tensor(SPREAD).to(theta)[:, None]
    # sigmoid(4 v) is 0.5 + v near 0 and never leaves 0…1
    return torch.sigmoid(4 * torch.einsum("nahw,ac->nchw", maps, weights))


def opponent(pictures: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 h w"]:
    """Opponent maps of variance about 1 of which `paint` would have made these pictures."""
    weights = torch.tensor(AXES).to(pictures) / torch.tensor(SPREAD).to(pictures)[:, None]
    return torch.einsum("nchw,ac->nahw", torch.logit(pictures) / 4, weights)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise refuse("kind", f"be one of {', '.join(KINDS)}", repr(kind), "phase keeps a photograph's spectrum.")
