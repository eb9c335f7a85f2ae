"""Where the block penalty comes from: MAP inference under a spike-and-slab prior (arXiv 2606.25234, Prop. 1)."""

from __future__ import annotations

import math

from monoseme.core.errors import refuse

__all__ = ["ball_volume", "map_penalty"]


def log_ball_volume(b: int, radius: float) -> float:
    """Logarithm of the volume of the ball of that radius in Rᵇ, π^(b/2) r^b / Γ(b/2 + 1)."""
    return 0.5 * b * math.log(math.pi) + b * math.log(radius) - math.lgamma(0.5 * b + 1)


def ball_volume(b: int, radius: float) -> float:
    """Volume of the ball of that radius in Rᵇ."""
    return math.exp(log_ball_volume(b, radius))


def map_penalty(sigma: float, pi: float, radius: float, b: int) -> float:
    """Return λ with which MAP inference is argmin_z ½‖x − zD‖² + λ‖z‖_{2,0}.

    The model: x = zD + ε, ε ~ N(0, σ² I); every block is active with probability π, independently; an active z_g is
    uniform on the ball of that radius in Rᵇ. Then λ = σ² log((1 − π)/π · vol(B_radius)) (Prop. 1). It is the price of
    one active block, and is negative where being active is the likelier state: then MAP switches every block on.

    In the training loss of this house, E‖x − x̂‖² + 2λ‖·‖, the same λ appears.

    Parameters
    ----------
    sigma
        Standard deviation of the noise in one coordinate, units of x. Above 0.
    pi
        Probability that a block is active, in (0, 1).
    radius
        Of the slab, units of the code. Above 0.
    b
        Block size.

    Examples
    --------
    >>> round(map_penalty(sigma=0.1, pi=0.02, radius=3.0, b=2), 4)  # 0.01 · log(49 · 9π)
    0.0723
    """
    for name, value in (("sigma", sigma), ("radius", radius)):
        if not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise refuse(name, "be positive and finite", repr(value), "It is a length.")
    if not (isinstance(pi, (int, float)) and 0 < pi < 1):
        raise refuse("pi", "lie between 0 and 1", repr(pi), "It is a probability.")
    if not isinstance(b, int) or isinstance(b, bool) or b < 1:
        raise refuse("b", "be a positive integer", repr(b), "It is the block size.")
    # the volume itself leaves the range of floats from b of a few hundred on
    return sigma * sigma * (math.log1p(-pi) - math.log(pi) + log_ball_volume(b, radius))
