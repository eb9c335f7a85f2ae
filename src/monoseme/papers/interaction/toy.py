"""The toy of double descent: ReLU(Wᵀ W x + b) with W 2 × n, on sparse rows, and its two AGOPs in closed form.

A row has about n / 100 non-zeros, so rows are kept as these: `values` beside `places`. Training reads them as they are;
`Toy.dense_loss` is the slow twin on rows written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from monoseme.core.rows import RowSource

__all__ = ["Toy", "agops", "dense", "draw_rows"]

HIDDEN = 2


def draw_rows(count: int, n: int, kept: float, seed: int) -> Float[Tensor, "count twice"]:
    """Rows of unit norm: entries uniform in [0, 1), each kept with probability `kept`, then divided by the row's norm.

    Returns a row's non-zero values and, after them, their places (float32 holds whole numbers below 2²⁴ exactly);
    shorter rows are filled with zeros at place 0. A row without any non-zero stays zero.

    The generator has the plain seed, not a stream named by it, and all masks are drawn before all values: these are the
    rows that the authors' code draws where it runs on a CPU.
    """
    random = torch.Generator().manual_seed(seed)
    on = torch.rand(count, n, generator=random) <= kept
    row, place = on.nonzero(as_tuple=True)
    value = torch.rand(count, n, generator=random)[row, place]
    norm = torch.zeros(count).index_add_(0, row, value.square()).sqrt().clamp(min=1e-12)
    many = on.sum(1)
    longest = max(1, int(many.max()))
    out = torch.zeros(count, 2 * longest)
    nth = torch.arange(len(row)) - (many.cumsum(0) - many)[row]
    out[row, nth] = value / norm[row]
    out[row, longest + nth] = place.float()
    return out


def dense(rows: Float[Tensor, "count twice"], n: int) -> Float[Tensor, "count n"]:
    """The same rows written out."""
    values, places = rows.chunk(2, dim=1)
    return torch.zeros(len(rows), n, dtype=rows.dtype).scatter_add_(1, places.long(), values)


class _Squared(torch.autograd.Function):
    """Squared error summed over dimensions, averaged over rows. Value and gradient come from one compiled pass."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, b: Tensor, x: Tensor) -> Tensor:
        from monoseme.papers.interaction.toy_loops import squared

        values, places = (part.numpy() for part in x.chunk(2, dim=1))
        w0, w1 = w.detach().numpy()
        gradient = np.zeros((HIDDEN + 1, w.shape[1]), w0.dtype)
        total = squared(values, places, w0, w1, b.detach().numpy(), *gradient)
        ctx.gradient = torch.from_numpy(gradient) * (2 / len(x))
        return torch.tensor(total / len(x), dtype=w.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return grads[0] * ctx.gradient[:HIDDEN], grads[0] * ctx.gradient[HIDDEN], None


class Toy:
    """ReLU(Wᵀ W x + b), trained to give x back: a `Trainable` on rows of `draw_rows`.

    W is Xavier-normal (standard deviation √(2 / (n + 2))), b zero; from the plain seed, as in the authors' code.
    """

    def __init__(self, n: int, seed: int, dtype: torch.dtype = torch.float32) -> None:
        w = nn.init.xavier_normal_(torch.empty(HIDDEN, n), generator=torch.Generator().manual_seed(seed))
        self.w = nn.Parameter(w.to(dtype))
        self.b = nn.Parameter(torch.zeros(n, dtype=dtype))

    def parameters(self) -> list[nn.Parameter]:
        """W and b."""
        return [self.w, self.b]

    def state(self) -> dict[str, Tensor]:
        """W and b."""
        return {"w": self.w.detach(), "b": self.b.detach()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        with torch.no_grad():
            for name, tensor in self.state().items():
                tensor.copy_(state[name])

    def begin(self, rows: RowSource) -> None:
        """Nothing here depends on the data."""

    def loss(self, x: Tensor, step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Squared error, summed over dimensions and averaged over rows."""
        return _Squared.apply(self.w, self.b, x), {}  # pyright: ignore[reportReturnType]

    def dense_loss(self, x: Float[Tensor, "count n"]) -> Float[Tensor, ""]:
        """The same of rows written out, with torch's autograd."""
        return (torch.relu(x @ self.w.T @ self.w + self.b) - x).square().sum(1).mean()

    def before_step(self, step: int) -> None:
        """No constraint."""

    def after_step(self, step: int) -> None:
        """No constraint."""

    def finish(self) -> None:
        """Nothing to do."""


def agops(
    w: Float64[Tensor, "2 n"], b: Float64[Tensor, " n"], x: Float64[Tensor, "count n"]
) -> tuple[Float64[Tensor, "n n"], Float64[Tensor, "n n"]]:
    """AGOP on rows `x`, output side E[J Jᵀ] and input side E[Jᵀ J], both n × n.

    J = diag(s) G₀ with G₀ = Wᵀ W and s which outputs are above zero. So E[J Jᵀ] = G₀² ∘ C, C_jk the share of rows on
    which both j and k are, and E[Jᵀ J] = G₀ diag(p) G₀ with p = diag(C).
    """
    on = (x @ w.T @ w + b > 0).to(w.dtype)
    together = on.T @ on / len(x)
    # G₀² = Wᵀ (W Wᵀ) W: through two dimensions
    output = (w.T @ (w @ w.T) @ w) * together
    return output, w.T @ ((w * together.diagonal()) @ w.T) @ w
