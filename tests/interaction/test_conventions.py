"""Every published convention against a few lines written out, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.interaction.small_nets import SYMBOLS, build
from torch import Tensor, nn
from torch.func import jacrev
from torch.nn.attention import SDPBackend, sdpa_kernel

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.interaction.conventions import CONVENTIONS, Projected, agop_as, centred_logits
from monoseme.interaction.pieces import Piece


class Toy(nn.Module):
    """ReLU(WᵀW x + b), two hidden numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, 6, generator=generator(0, "w"), dtype=torch.float64))
        self.b = nn.Parameter(0.1 * torch.randn(6, generator=generator(0, "b"), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.w.T @ self.w + self.b)


X = torch.rand(40, 6, generator=generator(1, "x"), dtype=torch.float64)


def mean_over_samples(f: Callable[[Tensor], Tensor], x: Tensor, output_side: bool) -> np.ndarray:
    """E J Jᵀ or E JᵀJ of a function of one sample, dense."""
    found = []
    for row in x:
        with sdpa_kernel(SDPBackend.MATH):
            j = jacrev(f)(row).flatten(1)
        found.append(j @ j.T if output_side else j.T @ j)
    return torch.stack(found).mean(0).detach().numpy()


def test_the_toy_on_both_sides_is_its_closed_form() -> None:
    toy = Toy()
    gram = (toy.w.T @ toy.w).detach()
    on = (toy(X) > 0).double()
    together = (on.T @ on) / len(X)
    np.testing.assert_allclose(agop_as("toy", toy, X).matrix, (gram @ gram) * together, atol=1e-12)
    rate = torch.diag(on.mean(0))
    np.testing.assert_allclose(agop_as("toy-input", toy, X).matrix, gram @ rate @ gram, atol=1e-12)


def embeddings(module: nn.Module, ids: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Token plus position embeddings, and the rest of the small GPT on one sample."""

    def rest(e: Tensor) -> Tensor:
        h = e[None]
        for block in module.get_submodule("blocks").children():
            h = block(h)
        return module.get_submodule("head")(h)[0]

    positions = module.get_submodule("wpe")(torch.arange(ids.shape[1]))
    return (module.get_submodule("wte")(ids) + positions).detach(), rest


def test_budget_sweep_is_unbiased_for_the_projected_jacobian() -> None:
    module, ids = build("gpt")
    e, rest = embeddings(module, ids)
    p = Projected().matrix(SYMBOLS).double()
    exact = mean_over_samples(lambda row: p @ rest(row)[-1], e, True)
    assert p.shape == (64, SYMBOLS)
    drawn = torch.randn(64, SYMBOLS, generator=torch.Generator().manual_seed(42)) / 8
    torch.testing.assert_close(p, drawn.double())
    found = agop_as("budget-sweep", module, ids.repeat(8, 1), "blocks.0")
    assert (found.about.side, found.about.probes, found.about.width) == ("output", 64, 64)
    # 40 samples of 64 Gaussian probes each: entries are off by a few per cent of the largest
    assert abs(found.matrix - exact).max() < 0.1 * abs(exact).max()
    assert found.trace().value == pytest.approx(np.trace(exact), rel=0.1)


def test_gpt_scan_is_the_loss_gradient_of_every_position() -> None:
    module, ids = build("gpt")
    targets = ids.roll(-1, 1)
    e, rest = embeddings(module, ids)
    total: Any = 0
    for row, target in zip(e, targets, strict=True):
        g = torch.func.grad(lambda t, target=target: F.cross_entropy(rest(t), target, reduction="sum"))(row)
        total = total + (g.T @ g / len(g)).detach().numpy()
    found = agop_as("gpt-scan", module, ids, "blocks.0", targets=targets)
    np.testing.assert_allclose(found.matrix, total / len(ids), atol=1e-12 * abs(total).max())


def test_cnn_scan_cuts_windows_of_sketched_gradients() -> None:
    module, x = build("cnn")
    found = agop_as("cnn-scan", module, x.repeat(60, 1, 1, 1))
    exact: Any = 0
    for row in x:
        j = jacrev(lambda t: module(t[None])[0])(row)  # (K, C, H, W)
        windows = F.unfold(j, 3, padding=1).mT  # (K, places, C 9)
        exact = exact + torch.einsum("kpd,kpe->de", windows, windows) / windows.shape[1]
    exact = (exact / len(x)).detach().numpy()
    assert found.about.width == 18
    assert abs(found.matrix - exact).max() < 0.25 * abs(exact).max()


def test_mlp_scan_and_teacher_are_unbiased_sketches() -> None:
    module, x = build("mlp")
    f = lambda row: module(row[None])[0]  # noqa: E731
    for name, output_side, close in (("mlp-scan", False, 0.2), ("teacher", True, 0.15)):
        exact = mean_over_samples(f, x, output_side)
        found = agop_as(name, module, x.repeat(100 if name == "mlp-scan" else 10, 1))
        assert abs(found.matrix - exact).max() < close * abs(exact).max(), name


def test_one_hot_is_centred_and_free_of_the_logits_scale() -> None:
    module, ids = build("gpt")
    found = agop_as("one-hot", module, ids, "wte")
    assert found.about.width == ids.shape[1] * SYMBOLS
    with torch.no_grad():
        y = module(ids)
        made = centred_logits(y, Piece(ids, None, len(ids)))
        larger = centred_logits(7 * y + 3, Piece(ids, None, len(ids)))
    torch.testing.assert_close(made, larger)
    torch.testing.assert_close(made.mean(1), torch.zeros(len(ids), dtype=made.dtype), atol=1e-12, rtol=0)
    torch.testing.assert_close(made.square().mean(1), torch.ones(len(ids), dtype=made.dtype))


def test_every_convention_says_where_it_was_used() -> None:
    assert len({c.used for c in CONVENTIONS.values()}) == len(CONVENTIONS) == 8
    with pytest.raises(UserError, match="name"):
        agop_as("toyy", Toy(), X)
