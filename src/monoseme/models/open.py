"""`open_model`: a name or a module becomes a `HookedModel`. A new model costs one file and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from monoseme.core.errors import closest, refuse
from monoseme.models.dinov2_saliency import open_dinov2_saliency
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.smollm2 import open_smollm2

__all__ = ["REGISTRY", "open_model"]

# name → opener(weights, seed)
REGISTRY: dict[str, Callable[[str, int], HookedModel]] = {
    "dinov2-small-saliency": open_dinov2_saliency,
    "smollm2-135m": open_smollm2,
}


def open_model(model: str | nn.Module | HookedModel, weights: str = "pretrained", seed: int = 0) -> HookedModel:
    """Open a model by name, or put hooks on a module of your own.

    Parameters
    ----------
    model
        A name in `REGISTRY`, or a module. To state facts about a module (patch size, preprocessing), build
        ``HookedModel(module, ModelFacts(...))`` and pass that anywhere a model is taken.
    weights
        "pretrained", or "random": the same shape with weights drawn from `seed`, as a control.
    seed
        Seed of random weights.

    Raises
    ------
    UserError
        For an unknown name, missing weights, or random weights asked of a ready module.

    Examples
    --------
    >>> open_model(nn.Sequential(nn.Linear(2, 3))).hooks()
    ['0']
    """
    if weights not in ("pretrained", "random"):
        raise refuse("weights", "be 'pretrained' or 'random'", repr(weights), "Random weights serve as a control.")
    if isinstance(model, str):
        if model not in REGISTRY:
            raise refuse("model", "be a known name or a torch module", repr(model), closest(model, REGISTRY))
        return REGISTRY[model](weights, seed)
    if weights == "random":
        raise refuse("weights", "be 'pretrained' for a module of your own", "'random'", "Initialise it yourself.")
    if isinstance(model, HookedModel):
        return model
    return HookedModel(model, ModelFacts(type(model).__name__))
