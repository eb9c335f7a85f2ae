"""AGOPs of every block of a 12-block ViT-S-like network, beside forward passes, `vmap(jacrev)` and xRFM.

    python -m benchmarks.agop [INPUTS]

64 tokens of width 384, ten outputs, 256 inputs, exact, input side. What counts is the ratio of times to forward passes
on the same inputs in the same run. xRFM (``pip install xrfm``) has AGOPs of kernel machines only: it is timed on those,
where it is installed.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from monoseme.core.seeds import generator
from monoseme.interaction import agop
from monoseme.models.families import ViT, ViTShape

SHAPE, INPUTS, PIECE, FEW = ViTShape(12, 384, 3, 32, 4, 10, 64), 256, 32, 16


def seconds(work: Callable[[], Any], repeats: int = 2) -> tuple[float, Any]:
    """Least wall time of a few, and the last result."""
    best, found = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - start)
    return best, found


@torch.no_grad()
def forwards(model: nn.Module, x: Tensor) -> None:
    """The forward passes that times are counted in."""
    for part in x.split(PIECE):
        model(part)


def by_jacrev(model: ViT, x: Tensor) -> list[np.ndarray]:
    """One Jacobian a sample and block, by `vmap(jacrev)` of the rest of the network."""
    found = []
    # `vmap` has no rule for the fused attention: the plain one is faster under it
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        h = model.patches(x).flatten(2).transpose(1, 2) + model.position
        for index in range(SHAPE.depth):
            rest = _Rest(model, index)
            weights = dict(rest.named_parameters())
            run = lambda row, rest=rest, weights=weights: functional_call(rest, weights, (row[None],))[0]  # noqa: E731
            total = torch.zeros(SHAPE.width, SHAPE.width, dtype=torch.float64)
            for part in h.split(8):
                rows = vmap(jacrev(run))(part).flatten(0, 2)
                total += (rows.T @ rows).double() / SHAPE.tokens
            found.append((total / len(x)).numpy())
            h = model.blocks[index](h)
    return found


class _Rest(nn.Module):
    """The network from a block on."""

    def __init__(self, model: ViT, index: int) -> None:
        super().__init__()
        self.blocks, self.norm, self.head = model.blocks[index:], model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def kernel_machine() -> str:
    """XRFM's AGOP of a fitted kernel machine on as many rows of 384 numbers with ten outputs."""
    try:
        from xrfm import RFM  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "xRFM: not installed (pip install xrfm)"
    x, y = torch.randn(1000, SHAPE.width), torch.randn(1000, 10)
    machine = RFM(kernel="l2", device="cpu", tuning_metric="mse")
    took, _ = seconds(lambda: machine.fit((x, y), (x, y), iters=1, reg=1e-3), 1)
    return f"xRFM: one kernel AGOP of 1,000 rows with its fit {took:.2f} s; of a module or its layers: not possible"


def main() -> None:
    """Time, compare, print."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS
    model = ViT(SHAPE).eval()
    x = torch.randn(many, 3, 32, 32, generator=generator(0, "pictures"))
    names = [f"blocks.{i}" for i in range(SHAPE.depth)]
    unit, _ = seconds(lambda: forwards(model, x), 3)
    ours, found = seconds(lambda: agop(model, x, names), 1)
    unit = min(unit, seconds(lambda: forwards(model, x), 2)[0])
    slow, twin = seconds(lambda: by_jacrev(model, x[:FEW]), 1)
    few = agop(model, x[:FEW], names)
    worst = max(abs(few[n].matrix - t).max() / abs(t).max() for n, t in zip(names, twin, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    about = found[names[0]].about
    print(f"{torch.get_num_threads()} threads, {many} inputs, {SHAPE.depth} blocks, K = {SHAPE.outputs}, float32")
    print(f"forward passes           {unit:7.2f} s")
    print(f"agop, all blocks at once {ours:7.2f} s = {ours / unit:.1f} forward passes (K + 3 = {SHAPE.outputs + 3})")
    print(f"vmap(jacrev), a block at a time, {slow / FEW * many:7.2f} s on {many} (timed on {FEW}): "
          f"{slow / FEW * many / ours:.1f} x slower; largest difference {worst:.1e}")  # fmt: skip
    print(f"peak memory of this process {peak:.2f} GiB; {about.method}, {about.chunk} inputs at once")
    print(kernel_machine())


if __name__ == "__main__":
    main()
