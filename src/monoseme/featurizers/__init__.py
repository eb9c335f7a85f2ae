"""A featurizer is encoder × cone × gate × dictionary, over blocks of size b.

Reading order: `featurizer`, `encoders`, `gates`, `dictionaries`, `zoo`, `objective`, then `thresholds`, `selection`,
`control`, `prior`, `refine`, `units`, `io`.
"""

from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.fitting import FitResult, fit
from monoseme.featurizers.io import load
from monoseme.featurizers.objective import AuxK, Objective
from monoseme.featurizers.prior import map_penalty
from monoseme.featurizers.ranked import RankedTopK
from monoseme.featurizers.zoo import (
    ZOO,
    BatchTopK,
    BlockTopK,
    FalseDiscovery,
    Grassmannian,
    GroupLasso,
    JumpReLU,
    ReLU,
    TopK,
    Tournament,
    build,
)

__all__ = [
    "ZOO",
    "AuxK",
    "BatchTopK",
    "BlockTopK",
    "FalseDiscovery",
    "Featurizer",
    "FitResult",
    "Grassmannian",
    "GroupLasso",
    "JumpReLU",
    "Objective",
    "RankedTopK",
    "ReLU",
    "TopK",
    "Tournament",
    "build",
    "fit",
    "load",
    "map_penalty",
]
