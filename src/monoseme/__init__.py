"""monoseme: take neural networks apart, and know whether to believe what you see.

import monoseme as ms
store = ms.harvest("dinov2-small-saliency", pictures, at="blocks.9", out="store")
result = ms.fit(ms.featurizers.Grassmannian(store.d_in, 1024, 3, k=8), store, out="run")
ms.evaluate(result.featurizer, store)  # numbers with intervals; .table() is text
ms.page("run")  # the path of a page to open
"""

from monoseme import composition, evaluation, featurizers, interaction, optimality, steering, worlds
from monoseme.api import (
    ActivationStore,
    Audit,
    Choice,
    Evaluation,
    FitResult,
    SweepResult,
    Watch,
    agop,
    agop_page,
    audit,
    certify,
    choose,
    depth_page,
    emc2,
    evaluate,
    fit,
    harvest,
    load,
    network_page,
    open_model,
    page,
    process_pool,
    prune,
    steer,
    sweep,
    sweep_page,
)
from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome

__all__ = [
    "ActivationStore",
    "Audit",
    "Choice",
    "Code",
    "Evaluation",
    "FitResult",
    "Outcome",
    "SweepResult",
    "UserError",
    "Watch",
    "agop",
    "agop_page",
    "audit",
    "certify",
    "choose",
    "composition",
    "depth_page",
    "emc2",
    "evaluate",
    "evaluation",
    "featurizers",
    "fit",
    "harvest",
    "interaction",
    "load",
    "network_page",
    "open_model",
    "optimality",
    "page",
    "process_pool",
    "prune",
    "steer",
    "steering",
    "sweep",
    "sweep_page",
    "worlds",
]
