"""A featurizer is encoder × cone × gate × dictionary, over blocks of size b.

Reading order: `featurizer`, `encoders`, `gates`, `dictionaries`, `zoo`, `objective`, then `refine`, `units`, `io`.
"""

from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.fitting import FitResult, fit
from monoseme.featurizers.io import load
from monoseme.featurizers.objective import AuxK, Objective
from monoseme.featurizers.zoo import ZOO, BlockTopK, Grassmannian, ReLU, TopK, build

__all__ = [
    "ZOO",
    "AuxK",
    "BlockTopK",
    "Featurizer",
    "FitResult",
    "Grassmannian",
    "Objective",
    "ReLU",
    "TopK",
    "build",
    "fit",
    "load",
]
