"""What an intervention does to a model's answers, and at what price: the target, all else, and how natural it stays.

Steers are compared at an equal price, the KL divergence of the next-token distribution from that without a steer: a
stronger push moves everything more. `matched_strength` finds the strength with a given KL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of

__all__ = ["Effects", "Naturalness", "effects", "matched_strength", "naturalness"]


@dataclass(frozen=True, eq=False)
class Effects:
    """Of a steer on several inputs; intervals are Student's over inputs.

    Attributes
    ----------
    kl
        KL(without ‖ with) of the answers, nats an input.
    target
        Rise of the log probability of the wanted answers together.
    off_target
        Total variation among all other answers, renormalised: what else changed; lower is better at an equal target.
    """

    kl: Outcome
    target: Outcome
    off_target: Outcome
    each: dict[str, Float64[np.ndarray, " n"]]


def effects(before: Float[Tensor, "n C"], after: Float[Tensor, "n C"], wanted: Int[Tensor, " m"]) -> Effects:
    """Compare logits without and with a steer: of classes, or of the next token.

    Parameters
    ----------
    before, after
        Logits, a row an input.
    wanted
        Answers that the steer is meant to raise, named beforehand.
    """
    if before.shape != after.shape or not bool(torch.isfinite(before).all() & torch.isfinite(after).all()):
        raise refuse(
            "before and after", "be finite and alike", (tuple(before.shape), tuple(after.shape)), "Same inputs."
        )
    C = before.shape[1]
    if not 0 < len(wanted) < C or int(wanted.min()) < 0 or int(wanted.max()) >= C:
        raise refuse("wanted", f"be some of 0..{C - 1}", len(wanted), "Name the answers before steering.")
    p, q = before.double().log_softmax(1), after.double().log_softmax(1)
    others = torch.ones(C, dtype=torch.bool)
    others[wanted.cpu()] = False
    kl = (p.exp() * (p - q)).sum(1).clamp(min=0)
    target = q[:, ~others].logsumexp(1) - p[:, ~others].logsumexp(1)
    rest = (p[:, others].softmax(1) - q[:, others].softmax(1)).abs().sum(1) / 2
    each = {"kl": kl.cpu().numpy(), "target": target.cpu().numpy(), "off_target": rest.cpu().numpy()}
    return Effects(
        _mean("kl", each["kl"], "nats", None),
        _mean("target_shift", each["target"], "nats", "higher"),
        _mean("off_target", each["off_target"], "1", "lower"),
        each,
    )


def matched_strength(
    price: Callable[[float], float], wanted: float, most: float = 1e3, tolerance: float = 1e-4
) -> tuple[float, float]:
    """The smallest strength found whose price is `wanted`, and the price it has (the certificate).

    Parameters
    ----------
    price
        Strength → price; 0 at 0, growing at least until it first reaches `wanted`.
    most
        Strength beyond which is not looked.
    tolerance
        Relative, of the strength.

    Raises
    ------
    UserError
        A price that is never reached.
    """
    if not wanted > 0:
        raise refuse("wanted", "be positive", wanted, "0.1 nats is a start.")
    if not 0 < tolerance < 1:
        raise refuse("tolerance", "lie inside 0…1", tolerance, "1e-4 is the default.")
    low, high = 0.0, 1e-3
    while (there := price(high)) < wanted:
        # small pushes cost their square, so this lands near; at most 8 times as far, so as not to pass the first reach
        low, high = high, high * (8.0 if there <= 0 else min(max((wanted / there) ** 0.5, 1.05), 8.0))
        if high > most:
            raise refuse("wanted", f"be reached below a strength of {most:g}", wanted, "Choose a smaller price.")
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (middle, high) if price(middle) < wanted else (low, middle)
    return high, price(high)


@dataclass(frozen=True)
class Naturalness:
    """Mahalanobis distances of edited rows to the activations' distribution, beside those of untouched rows.

    Attributes
    ----------
    edited, untouched
        Means, in units where untouched rows have about 1: √(distance² ÷ d).
    beyond
        Share of edited rows farther out than 95 % of untouched ones; 0.05 is natural, lower is not better.
    """

    edited: float
    untouched: float
    beyond: float


def naturalness(
    rows: Float[Tensor, "n d"], edited_rows: Float[Tensor, "m d"], held: Float[Tensor, "k d"], ridge: float = 1e-3
) -> Naturalness:
    """Distances to the mean of `rows` by their covariance; `held` are other untouched rows, the reference.

    `ridge` times the mean variance is added to the covariance, so that directions without data do not decide.
    """
    if len(rows) < 2 or not len(edited_rows) or not len(held):
        got = (len(rows), len(edited_rows), len(held))
        raise refuse("rows, edited_rows and held", "hold rows", got, "Bring more activations.")
    x = rows.double()
    mean, d = x.mean(0), x.shape[1]
    covariance = (x - mean).T @ (x - mean) / (len(x) - 1)
    variance = float(covariance.diagonal().mean())
    if not variance > 0:
        raise refuse("rows", "vary", "constant ones", "Bring more activations.")
    factor = torch.linalg.cholesky(covariance + ridge * variance * torch.eye(d, dtype=torch.float64))

    def distance(y: Tensor) -> Tensor:
        white = torch.linalg.solve_triangular(factor, (y.double() - mean).T, upper=False)
        return (white.square().sum(0) / d).sqrt()

    own, other = distance(edited_rows), distance(held)
    beyond = float((own > torch.quantile(other, 0.95)).double().mean())
    return Naturalness(float(own.mean()), float(other.mean()), beyond)


def _mean(name: str, values: Float64[np.ndarray, " n"], unit: str, better: str | None) -> Outcome:
    found = mean_of(values)
    low, high = (found.low, found.high) if found.n > 1 else (None, None)
    return Outcome(name, found.value, unit, low, high, better=better, n=found.n, n_unit="inputs")  # pyright: ignore[reportArgumentType]
