"""Five small networks in float64, one of each family, with inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from monoseme.core.seeds import generator
from monoseme.models.vit import Block

__all__ = ["CNN", "GPT", "GRU", "MLP", "NETS", "ViTBlock", "build"]

SYMBOLS = 11


class MLP(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 8), nn.GELU(), nn.Linear(8, 3))


class CNN(nn.Module):
    """Strides, padding, groups, a residual sum that reads a map twice, and BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.norm(self.stem(x)))
        h = h + self.conv(h)
        return self.head(F.silu(h).mean((2, 3)))


class ViTBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block(8, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(x).mean(1))


class GRU(nn.Module):
    """Two layers; the second is built with ``batch_first=False``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.GRU(3, 5, batch_first=True)
        self.second = nn.GRU(5, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.first(x)
        h, _ = self.second(h.transpose(0, 1))
        return self.head(h[-1])


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(SYMBOLS, 8), nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(_Causal() for _ in range(2))
        self.head = nn.Linear(8, SYMBOLS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class _Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(x)


def _ids(shape: tuple[int, ...]) -> Tensor:
    return torch.randint(SYMBOLS, shape, generator=generator(1, "ids"))


def _reals(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator(1, "reals"), dtype=torch.float64)


NETS = {
    "mlp": (MLP, lambda: _reals(7, 6)),
    "cnn": (CNN, lambda: _reals(5, 2, 6, 6)),
    "vit": (ViTBlock, lambda: _reals(5, 4, 8)),
    "gru": (GRU, lambda: _reals(5, 6, 3)),
    "gpt": (GPT, lambda: _ids((5, 6))),
}


def build(name: str) -> tuple[nn.Module, Tensor]:
    """The network, in evaluation mode, with weights of its own seed; and its inputs."""
    make, inputs = NETS[name]
    module = make().double()
    stream = generator(0, "weights", name)
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(0.5 * torch.randn(tensor.shape, generator=stream, dtype=torch.float64))
            if key.endswith("running_var"):
                tensor.abs_().add_(0.5)
    return module.eval(), inputs()
