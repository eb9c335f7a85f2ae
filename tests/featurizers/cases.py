"""Every featurizer, once. A new one adds a line here and must pass `test_contracts.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from monoseme.featurizers import (
    BatchTopK,
    BlockTopK,
    FalseDiscovery,
    Featurizer,
    Grassmannian,
    GroupLasso,
    JumpReLU,
    RankedTopK,
    TopK,
    Tournament,
    build,
)

D, G, K = 16, 24, 3


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[..., Featurizer]
    options: dict[str, Any] = field(default_factory=dict)  # what its fit needs
    turns: bool = True  # whether a block may be rotated; the cone R₊ᵇ is not invariant, by definition


CASES = [
    # by name, as a file or the command line does: this needs no import
    Case("relu", lambda **o: build("ReLU", {"d_in": D, "n_blocks": G, **o}), {"lam": 0.3}, turns=False),
    Case("topk", lambda **o: TopK(D, G, k=K, **o), {"aux": "dead"}, turns=False),
    Case("topk-signed", lambda **o: TopK(D, G, k=K, sign="free", **o), {"aux": "runners-up"}),
    Case("block-topk", lambda **o: BlockTopK(D, G, 3, k=K, **o)),
    Case(
        "block-topk-nonneg", lambda **o: BlockTopK(D, G, 2, k=K, sign="nonneg", constraint="sphere", **o), turns=False
    ),
    Case("grassmannian", lambda **o: Grassmannian(D, G, 3, k=K, **o)),
    Case("grassmannian-cholesky", lambda **o: Grassmannian(D, G, 4, k=K, retraction="cholesky", **o), {"aux": "dead"}),
    Case("grassmannian-scales", lambda **o: Grassmannian(D, G, 2, k=K, gamma="block", **o)),
    Case("block-topk-atoms", lambda **o: BlockTopK(D, G, 3, k=K, constraint="atoms", **o), turns=False),
    Case("ranked-topk", lambda **o: RankedTopK(D, G, k=K, **o), turns=False),
    Case("batch-topk", lambda **o: BatchTopK(D, G, k=K, **o), turns=False),
    Case("batch-topk-blocks", lambda **o: BatchTopK(D, G, 3, k=K, **o)),
    Case("jumprelu", lambda **o: JumpReLU(D, G, **o), {"lam": 0.3}, turns=False),
    Case("jumprelu-blocks", lambda **o: JumpReLU(D, G, 2, kernel="gaussian", **o), {"lam": 0.3}),
    Case("group-lasso", lambda **o: GroupLasso(D, G, 3, target_l0=K, **o)),
    Case("group-lasso-shared", lambda **o: GroupLasso(D, G, 2, target_l0=K, theta="shared", **o)),
    Case("group-lasso-threshold", lambda **o: GroupLasso(D, G, 3, target_l0=K, gate="threshold", **o)),
    Case("false-discovery", lambda **o: FalseDiscovery(D, G, 2, k=K, alpha=0.2, **o)),
    Case("tournament", lambda **o: Tournament(D, G, 2, k=K, overlap=0.3, **o)),
]
