"""The only package that joins rooms: what `import monoseme as ms` offers, verb by verb.

model + data ─harvest▶ store ─fit▶ featurizer ─evaluate▶ numbers ─page▶ something to look at

Reading order: `fitting`, `describing`, `paging`.
"""

from monoseme.api.describing import describe
from monoseme.api.fitting import evaluate, fit, rows_of, store_of
from monoseme.api.paging import page
from monoseme.evaluation import Evaluation
from monoseme.featurizers import FitResult, load
from monoseme.models import open_model
from monoseme.store import ActivationStore, harvest

__all__ = [
    "ActivationStore",
    "Evaluation",
    "FitResult",
    "describe",
    "evaluate",
    "fit",
    "harvest",
    "load",
    "open_model",
    "page",
    "rows_of",
    "store_of",
]
