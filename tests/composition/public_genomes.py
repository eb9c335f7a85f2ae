"""The research-only genomes and parameters, where they are present. Nothing of them is part of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from monoseme.composition.network import ImageNetwork

__all__ = ["BANKS", "PUBLIC", "TABLE", "fer", "present"]

PUBLIC = Path(__file__).parents[2].parent / "shared" / "data" / "picbreeder"
present = pytest.mark.skipif(not (PUBLIC / "skull.zip").exists(), reason="the research-only genomes are not here")

# nodes, links that are not zero, hidden layers, width, parameters, weights that are not zero, copies
TABLE = {
    "skull": (23, 57, 12, 22, 5478, 147, 90),
    "butterfly": (34, 104, 16, 23, 8096, 281, 177),
    "apple": (83, 264, 33, 38, 46474, 918, 654),
}
BANKS = {
    "skull": [("identity", 15), ("gaussian", 4), ("identity", 2), ("sin", 1)],
    "butterfly": [("identity", 17), ("gaussian", 4), ("sigmoid", 1), ("sin", 1)],
    "apple": [("identity", 28), ("gaussian", 3), ("sigmoid", 5), ("sin", 2)],
}


def fer(name: str, kind: str = "picbreeder") -> ImageNetwork:
    """The parameters shipped with 2505.11581: flat, layers in lexicographic order, kernels (in, out)."""
    flat = np.load(PUBLIC / "fer_params.npz")[f"{kind}_{name}"]
    bank = [activation for activation, count in BANKS[name] for _ in range(count)]
    layers = TABLE[name][2]
    sizes = [4, *[len(bank)] * layers, 3]
    weights: list[Any] = [None] * (layers + 1)
    for i in sorted(range(layers + 1), key=lambda i: f"Dense_{i}"):
        many = sizes[i] * sizes[i + 1]
        weights[i], flat = torch.from_numpy(flat[:many].reshape(sizes[i], sizes[i + 1]).T.copy()).double(), flat[many:]
    return ImageNetwork(weights, [bank] * layers)
