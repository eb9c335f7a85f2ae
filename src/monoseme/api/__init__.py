"""The only package that joins rooms: what `import monoseme as ms` offers, verb by verb.

model + data ─harvest▶ store ─fit▶ featurizer ─evaluate▶ numbers ─page▶ something to look at

Reading order: `fitting`, `describing`, `paging`; for many fits `choosing`, `sweeping`, `comparing`; all at once
`auditing`. Beside them: `certifying`, `interacting`, `composing`.
"""

from monoseme.api.auditing import Audit, audit
from monoseme.api.certifying import certify
from monoseme.api.choosing import Choice, choose
from monoseme.api.comparing import describe_sweep, sweep_page
from monoseme.api.composing import depth_page, network_page
from monoseme.api.describing import describe
from monoseme.api.fitting import evaluate, fit, rows_of, store_of
from monoseme.api.interacting import agop_page
from monoseme.api.loading import load
from monoseme.api.measuring import AuditSettings, Watch
from monoseme.api.paging import page
from monoseme.api.sweeping import points_of, sweep
from monoseme.composition import emc2, prune
from monoseme.evaluation import Evaluation
from monoseme.featurizers import FitResult
from monoseme.interaction import agop
from monoseme.learning import SweepResult, process_pool
from monoseme.models import open_model
from monoseme.steering import steer
from monoseme.store import ActivationStore, harvest

__all__ = [
    "ActivationStore",
    "Audit",
    "AuditSettings",
    "Choice",
    "Evaluation",
    "FitResult",
    "SweepResult",
    "Watch",
    "agop",
    "agop_page",
    "audit",
    "certify",
    "choose",
    "depth_page",
    "describe",
    "describe_sweep",
    "emc2",
    "evaluate",
    "fit",
    "harvest",
    "load",
    "network_page",
    "open_model",
    "page",
    "points_of",
    "process_pool",
    "prune",
    "rows_of",
    "steer",
    "store_of",
    "sweep",
    "sweep_page",
]
