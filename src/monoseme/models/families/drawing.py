"""First weights, from a named stream: no global generator is moved."""

from __future__ import annotations

import math

import torch
from torch import nn

from monoseme.core.seeds import generator

__all__ = ["lecun"]


@torch.no_grad()
def lecun(module: nn.Module, seed: int, name: str) -> None:
    """Draw all weights: normal with variance 1 ÷ fan-in (LeCun et al. 1998); biases 0, norms 1, free tables 0.02."""
    stream = generator(seed, name)
    for part in module.modules():
        for key, parameter in part.named_parameters(recurse=False):
            if isinstance(part, (nn.LayerNorm, nn.GroupNorm)):
                parameter.fill_(1.0 if key == "weight" else 0.0)
            elif key == "bias":
                parameter.zero_()
            elif isinstance(part, (nn.Linear, nn.Conv2d)):
                parameter.normal_(0, 1 / math.sqrt(parameter[0].numel()), generator=stream)
            else:
                parameter.normal_(0, 0.02, generator=stream)
