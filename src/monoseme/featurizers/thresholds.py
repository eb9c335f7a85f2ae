"""Gates with learned thresholds: the soft one (group lasso) and the one that jumps (JumpReLU), over blocks of any size.

A threshold is positive and kept as its logarithm, in single precision whatever the rest is in: steps are then relative,
so that data of any scale train alike. It starts at a quantile of the first pre-codes' norms.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from monoseme.core.cones import Sign, block_norms, project
from monoseme.core.support import Support
from monoseme.featurizers.gates import Gate, cut_for, safe_norms

__all__ = ["Jump", "Kernel", "SoftThreshold", "Theta", "kernel"]

Theta = Literal["block", "shared"]
Kernel = Literal["gaussian", "cauchy", "rectangle"]
SMALLEST = 1e-30  # threshold, training units


class _Thresholds(Gate):
    """θ, one a block or one for all."""

    lam = None

    def __init__(self, n_blocks: int, start_l0: float, theta: Theta) -> None:
        super().__init__()
        self.n_blocks, self.start_l0 = n_blocks, start_l0
        self.log_theta = nn.Parameter(torch.zeros(n_blocks if theta == "block" else 1))

    @property
    def theta(self) -> Float[Tensor, " G"]:
        """Thresholds of all blocks, in training units, with gradients."""
        return self.log_theta.exp().expand(self.n_blocks)

    @torch.no_grad()
    def begin(self, norms: Float[Tensor, "n G"]) -> None:
        """Start all thresholds where `start_l0` blocks a row are active."""
        self.log_theta.fill_(math.log(max(float(cut_for(norms, self.start_l0)), SMALLEST)))

    @torch.no_grad()
    def calibrate(self, norms: Float[Tensor, "n G"]) -> None:
        """Scale all thresholds so that held-out rows have the target L0, which the penalty met only about."""
        if self.target is not None:
            # all that is not zero may be fewer than the target: a threshold of zero would have no logarithm
            scale = cut_for(norms / self.theta, self.target).clamp_min(SMALLEST)
            self.log_theta.add_(scale.log()).clamp_min_(math.log(SMALLEST))

    @property
    def calibrates(self) -> bool:
        """Only with a target."""
        return self.target is not None

    @torch.no_grad()
    def select(self, pre: Float[Tensor, "n Gb"], block_size: int, sign: Sign, training: bool = False) -> Support:
        """Every block whose norm exceeds its threshold."""
        return Support.from_mask(block_norms(pre.unflatten(1, (-1, block_size)), sign) > self.theta)


class SoftThreshold(_Thresholds):
    """z_g = max(1 − θ_g/‖u_g‖, 0) u_g, the proximal operator of θ_g‖·‖ (arXiv 2606.25234, §2.3 and App. D).

    Continuous, so that autograd's gradient of θ is exact. At b = 1 on R₊ it is ReLU(u − θ).
    """

    control = "above"

    def __init__(self, n_blocks: int, target: float, theta: Theta, lam: float | None) -> None:
        super().__init__(n_blocks, target, theta)
        self.target, self.lam = target, lam

    def shrink(self, values: Float[Tensor, "nnz b"], support: Support) -> Float[Tensor, "nnz b"]:
        """Shorten every block by its threshold."""
        theta = self.theta[support.indices.long()]
        return values * (1 - theta / safe_norms(values)).unsqueeze(-1)

    def dense(self, blocks: Float[Tensor, "n G b"], support: Support) -> Float[Tensor, "n G b"]:
        """The formula as it stands."""
        norms = safe_norms(blocks)
        factor = 1 - self.theta / torch.where(norms > 0, norms, torch.ones_like(norms))
        return blocks * (factor * support.to_mask()).unsqueeze(-1)


class Jump(_Thresholds):
    """z_g = H(‖u_g‖ − θ_g) u_g (Rajamanoharan et al. 2024, for blocks). θ learns through a kernel of bandwidth ε_g.

    Pseudo-derivatives, with K(t) the kernel and t = (‖u_g‖ − θ_g)/ε_g:

    - of the code: ∂z_g/∂θ_g = −(θ_g/ε_g) K(t) u_g/‖u_g‖;
    - of the count: ∂H/∂θ_g = −(1/ε_g) K(t).

    ε_g = `bandwidth` · θ_g, so that nothing depends on the scale of the data. The kernels ``"gaussian"`` and
    ``"cauchy"`` have full support: with ``"rectangle"``, the paper's, a threshold that no norm is near never moves
    again (others saw 79 % of all thresholds freeze).
    """

    def __init__(
        self,
        n_blocks: int,
        start_l0: float,
        theta: Theta,
        bandwidth: float,
        kernel: Kernel,
        target: float | None = None,
        lam: float | None = None,
    ) -> None:
        super().__init__(n_blocks, start_l0, theta)
        self.bandwidth, self.kernel, self.target, self.lam = bandwidth, kernel, target, lam
        self.control = "fixed" if target is None else "dual"

    def edge(
        self, pre: Float[Tensor, "n Gb"], atoms: Float[Tensor, "G b d"], sign: Sign
    ) -> Float[Tensor, "n d"] | None:
        """Zeros with the first pseudo-derivative: one more dense product on the way back."""
        return _Edge.apply(self.theta, pre, atoms, sign, self.bandwidth, self.kernel)

    def dense(self, blocks: Float[Tensor, "n G b"], support: Support) -> Float[Tensor, "n G b"]:
        """The first pseudo-derivative, entry by entry."""
        return _Jump.apply(blocks, self.theta, self.bandwidth, self.kernel)

    def price(
        self, values: Float[Tensor, "nnz b"], support: Support, pre: Float[Tensor, "n Gb"], sign: Sign
    ) -> Float[Tensor, ""]:
        """Active blocks, with the second pseudo-derivative."""
        norms = block_norms(pre.unflatten(1, (self.n_blocks, -1)), sign)
        return _Count.apply(self.theta, norms, self.bandwidth, self.kernel)


def kernel(t: Float[Tensor, "n G"], name: Kernel) -> Float[Tensor, "n G"]:
    """K(t), of unit mass."""
    if name == "gaussian":
        return (-0.5 * t.square()).exp() / math.sqrt(2 * math.pi)
    if name == "cauchy":
        return 1 / (math.pi * (1 + t.square()))
    return (t.abs() < 0.5).to(t.dtype)


def _slope(
    norms: Float[Tensor, "n G"], theta: Float[Tensor, " G"], bandwidth: float, name: Kernel
) -> Float[Tensor, "n G"]:
    """K(t)/ε."""
    width = bandwidth * theta
    return kernel((norms - theta) / width, name) / width


class _Jump(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, blocks: Tensor, theta: Tensor, bandwidth: float, name: Kernel) -> Tensor:
        norms = safe_norms(blocks)
        ctx.save_for_backward(blocks, norms, theta)
        ctx.shape = bandwidth, name
        return blocks * (norms > theta).unsqueeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        blocks, norms, theta = ctx.saved_tensors
        along = (grad * blocks).sum(-1) / torch.where(norms > 0, norms, torch.ones_like(norms))
        theta_grad = -(theta * _slope(norms, theta, *ctx.shape) * along).sum(0)
        return grad * (norms > theta).unsqueeze(-1), theta_grad, None, None


class _Edge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, pre: Tensor, atoms: Tensor, sign: Sign, bandwidth: float, name: Kernel
    ) -> Tensor:
        ctx.save_for_backward(theta, pre, atoms)
        ctx.shape = sign, bandwidth, name
        return pre.new_zeros(len(pre), atoms.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        theta, pre, atoms = ctx.saved_tensors
        sign, bandwidth, name = ctx.shape
        n_blocks, b, d = atoms.shape
        blocks = project(pre.reshape(-1, n_blocks, b), sign)
        norms = safe_norms(blocks)
        to_codes = (grad.to(pre.dtype) @ atoms.reshape(n_blocks * b, d).T).reshape(blocks.shape)
        along = (to_codes * blocks).sum(-1) / torch.where(norms > 0, norms, torch.ones_like(norms))
        return -(theta * _slope(norms, theta, bandwidth, name) * along).sum(0), None, None, None, None, None


class _Count(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, norms: Tensor, bandwidth: float, name: Kernel) -> Tensor:
        ctx.save_for_backward(theta, norms)
        ctx.shape = bandwidth, name
        return (norms > theta).sum().to(theta.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        theta, norms = ctx.saved_tensors
        return -grad * _slope(norms, theta, *ctx.shape).sum(0), None, None, None
