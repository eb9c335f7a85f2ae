"""How sharp the minimum is in which a network lies: curvature of its loss, and what noise on its weights costs.

Curvature is not invariant: scaling one layer by c and the next by 1/c leaves the function of a network of linear or
ReLU layers as it is and changes every eigenvalue of the Hessian (Dinh et al. 2017). Noise relative to each weight is,
so both are given. All are of the loss of the data that the caller's function uses, at the weights as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import generator
from monoseme.core.stats import mean_of

__all__ = ["Flatness", "flatness", "hessian", "hessian_product", "hessian_trace", "loss_rise", "top_eigenvalue"]

Loss = Callable[[Any], Tensor]  # of the module; a scalar, the same at every call


@dataclass(frozen=True)
class Flatness:
    """Sharpness of one minimum; of all three, lower is flatter.

    Attributes
    ----------
    loss
        At the weights as they are.
    top
        Largest eigenvalue of the Hessian (`top_eigenvalue`).
    trace
        Sum of all (`hessian_trace`).
    rise
        Mean rise of the loss under relative noise (`loss_rise`).
    """

    loss: float
    top: Outcome
    trace: Outcome
    rise: Outcome


def flatness(
    module: nn.Module, loss: Loss, *, probes: int = 30, noise: float = 0.01, draws: int = 30, seed: int = 0
) -> Flatness:
    """Measure all of it.

    Parameters
    ----------
    module
        Weights that require gradients count; those that a mask makes 0 have no curvature and take no noise.
    loss
        ``loss(module)``: a scalar that needs no randomness, for example the error on fixed rows.
    probes, noise, draws
        See `hessian_trace` and `loss_rise`.
    """
    _weights(module)
    value = float(_value(module, loss).detach())
    return Flatness(
        value,
        top_eigenvalue(module, loss, seed=seed),
        hessian_trace(module, loss, probes=probes, seed=seed),
        loss_rise(module, loss, noise=noise, draws=draws, seed=seed),
    )


def hessian_product(module: nn.Module, loss: Loss) -> Callable[[Float[Tensor, " n"]], Float[Tensor, " n"]]:
    """Product v → Hv over all weights in one vector, in the order of ``module.parameters()``, by a second backward.

    The graph of the gradient is kept as long as the function is.
    """
    weights = _weights(module)
    first = torch.autograd.grad(_value(module, loss), weights, create_graph=True, materialize_grads=True)
    flat = torch.cat([g.flatten() for g in first])

    def product(v: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        if not flat.requires_grad:  # the loss is linear in the weights
            return torch.zeros_like(flat)
        second = torch.autograd.grad(flat, weights, v.to(flat), retain_graph=True, materialize_grads=True)
        return torch.cat([h.flatten() for h in second]).detach()

    return product


def hessian(module: nn.Module, loss: Loss) -> Float[Tensor, "n n"]:
    """The slow twin of `hessian_product`: the matrix, by reverse derivatives twice; for tiny networks."""

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self) -> Tensor:
            return loss(self.module)

    named = {f"module.{name}": p for name, p in module.named_parameters() if p.requires_grad}
    whole, sizes = Whole(), [p.numel() for p in named.values()]

    def of_flat(flat: Tensor) -> Tensor:
        parts = [part.view_as(p) for part, p in zip(flat.split(sizes), named.values(), strict=True)]
        return torch.func.functional_call(whole, dict(zip(named, parts, strict=True)), ())

    flat = torch.cat([p.detach().flatten() for p in named.values()])
    return torch.func.jacrev(torch.func.grad(of_flat))(flat).detach()


def top_eigenvalue(module: nn.Module, loss: Loss, *, tolerance: float = 1e-4, seed: int = 0) -> Outcome:
    """Largest (not largest absolute) eigenvalue of the Hessian, by Lanczos iterations.

    The certificate: with a unit vector v and r = ‖Hv - λv‖, some eigenvalue lies within r of λ, and none that is the
    largest lies below λ. The interval is λ ± r; it is no interval of chance. `tolerance` is relative to λ.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    if not 0 < tolerance < 1:
        raise refuse("tolerance", "lie between 0 and 1", tolerance, "1e-4 is usual.")
    product, n, like = hessian_product(module, loss), sum(p.numel() for p in _weights(module)), _weights(module)[0]
    count = 0

    def matvec(v: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        return product(torch.from_numpy(np.array(v, dtype=np.float64).ravel()).to(like)).double().cpu().numpy()

    start = torch.randn(n, generator=generator(seed, "top eigenvalue"), dtype=torch.float64).numpy()
    if n == 1 or not matvec(start).any():  # a matrix of one number, or zero, on which iterations fail
        value, vector = float(matvec(np.ones(n))[0]) if n == 1 else 0.0, np.ones(n) / np.sqrt(n)
    else:
        operator = LinearOperator((n, n), matvec=matvec, dtype=np.float64)  # pyright: ignore[reportCallIssue]
        try:
            values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=tolerance)  # pyright: ignore[reportArgumentType]
        except ArpackError as error:
            return unknown("top_eigenvalue", "loss/weight²", f"Lanczos: {error} after {count} products")
        value, vector = float(values[0]), vectors[:, 0]
    residual = float(np.linalg.norm(matvec(vector) - value * vector))
    note = f"± the residual; {count} products with the Hessian"
    where = {"seed": seed, "weights": n, "residual": residual, "dtype": str(like.dtype)}
    low, high = value - residual, value + residual
    return Outcome("top_eigenvalue", value, "loss/weight²", low, high, 1.0, "lower", note=note, provenance=where)


def hessian_trace(module: nn.Module, loss: Loss, *, probes: int = 30, seed: int = 0) -> Outcome:
    """Trace of the Hessian by Hutchinson's estimator: mean of vᵀHv over vectors of random signs.

    Unbiased, with variance 2 Σ_{i≠j} H_ij² ÷ probes; the interval is Student's. Lower is flatter.
    """
    if probes < 2:
        raise refuse("probes", "be at least 2", probes, "An interval needs two; 30 is a start.")
    product, n, stream = (
        hessian_product(module, loss),
        sum(p.numel() for p in _weights(module)),
        generator(seed, "trace"),
    )
    found = []
    for _ in range(probes):
        v = torch.randint(0, 2, (n,), generator=stream).double() * 2 - 1
        found.append(float(v @ product(v).double().cpu()))
    return _mean("hessian_trace", found, "loss/weight²", "probes", {"seed": seed, "weights": n})


def loss_rise(module: nn.Module, loss: Loss, *, noise: float = 0.01, draws: int = 30, seed: int = 0) -> Outcome:
    """Mean of loss(w (1 + noise · ε)) - loss(w), ε normal and independent for every weight.

    To second order noise² ÷ 2 · Σ w_i² H_ii. The weights are put back. Lower is flatter.
    """
    if not 0 < noise < float("inf"):
        raise refuse("noise", "be positive and finite", noise, "0.01 is one per cent of every weight.")
    if draws < 2:
        raise refuse("draws", "be at least 2", draws, "An interval needs two; 30 is a start.")
    weights, stream = _weights(module), generator(seed, "weight noise")
    with torch.no_grad():
        before, kept, found = float(_value(module, loss)), [w.clone() for w in weights], []
        try:
            for _ in range(draws):
                for w, old in zip(weights, kept, strict=True):
                    w.copy_(old * (1 + noise * torch.randn(w.shape, generator=stream, dtype=torch.float64).to(w)))
                found.append(float(loss(module).detach()) - before)
        finally:
            for w, old in zip(weights, kept, strict=True):
                w.copy_(old)
    return _mean("loss_rise", found, "loss", "draws", {"seed": seed, "noise": noise, "loss": before})


def _mean(name: str, found: Sequence[float], unit: str, n_unit: str, where: dict[str, Any]) -> Outcome:
    if not np.isfinite(found).all():
        return unknown(name, unit, f"{int((~np.isfinite(found)).sum())} of {len(found)} {n_unit} are not finite")
    mean = mean_of(found)
    where = {**where, "standard_error": float(np.std(found, ddof=1) / np.sqrt(len(found)))}
    return Outcome(
        name, mean.value, unit, mean.low, mean.high, better="lower", n=len(found), n_unit=n_unit, provenance=where
    )


def _weights(module: nn.Module) -> list[nn.Parameter]:
    found = [p for p in module.parameters() if p.requires_grad]
    if not found:
        raise refuse("module", "have weights that require gradients", "none", "Call requires_grad_() on it.")
    return found


def _value(module: nn.Module, loss: Loss) -> Tensor:
    value = loss(module)
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise refuse("loss", "return a tensor of one number", got, "Take the mean.")
    if torch.is_grad_enabled() and not value.requires_grad:
        raise refuse("loss", "depend on the module's weights", "one without gradient", "Remove detach or no_grad.")
    if not bool(torch.isfinite(value)):
        raise refuse("loss", "be finite at the weights as they are", float(value.detach()), "Look at the fit.")
    return value.squeeze()
