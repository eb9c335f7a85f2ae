"""Every featurizer, once. A new one adds a line here and must pass `test_contracts.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from monoseme.featurizers import BlockTopK, Featurizer, Grassmannian, ReLU, TopK

D, G, K = 16, 24, 3


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[..., Featurizer]
    options: dict[str, Any] = field(default_factory=dict)  # what its fit needs
    turns: bool = True  # whether a block may be rotated; the cone R₊ᵇ is not invariant, by definition


CASES = [
    Case("relu", lambda **o: ReLU(D, G, **o), {"lam": 0.3}, turns=False),
    Case("topk", lambda **o: TopK(D, G, k=K, **o), {"aux": "dead"}, turns=False),
    Case("topk-signed", lambda **o: TopK(D, G, k=K, sign="free", **o), {"aux": "runners-up"}),
    Case("block-topk", lambda **o: BlockTopK(D, G, 3, k=K, **o)),
    Case(
        "block-topk-nonneg", lambda **o: BlockTopK(D, G, 2, k=K, sign="nonneg", constraint="sphere", **o), turns=False
    ),
    Case("grassmannian", lambda **o: Grassmannian(D, G, 3, k=K, **o)),
    Case("grassmannian-cholesky", lambda **o: Grassmannian(D, G, 4, k=K, retraction="cholesky", **o), {"aux": "dead"}),
]
