"""`open_model`: a name or a module becomes a `HookedModel`. A new model costs one file and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from monoseme.core.errors import closest, refuse
from monoseme.models.dinov2_saliency import open_dinov2_saliency
from monoseme.models.efficientnet import open_efficientnet
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.hugging import open_hugging
from monoseme.models.inception import open_inception, open_named_inception
from monoseme.models.pipeline_files import open_pipeline
from monoseme.models.smollm2 import open_smollm2
from monoseme.models.timm_models import open_timm

__all__ = ["LIBRARIES", "REGISTRY", "open_model"]

# name → opener(weights, seed)
REGISTRY: dict[str, Callable[[str, int], HookedModel]] = {
    "dinov2-small-saliency": open_dinov2_saliency,
    "efficientnet-lite0": open_efficientnet,
    "inceptionv1": open_inception,
    "smollm2-135m": open_smollm2,
}


# prefix of "PREFIX:NAME" → opener(NAME, weights, seed)
LIBRARIES: dict[str, Callable[[str, str, int], HookedModel]] = {
    "diffusers": open_pipeline,
    "hf": open_hugging,
    "inceptionv1": open_named_inception,
    "timm": open_timm,
}


def open_model(
    model: str | nn.Module | HookedModel,
    weights: str = "pretrained",
    seed: int = 0,
    device: str | torch.device | None = None,
) -> HookedModel:
    """Open a model by name, or put hooks on a module of your own.

    Parameters
    ----------
    model
        A name in `REGISTRY`; "hf:NAME", a folder or a model of Hugging Face's hub; "timm:NAME"; "diffusers:NAME", a
        pipeline; "inceptionv1:FILE", a state dict; or a module. To state facts about a module (patch size,
        preprocessing), build ``HookedModel(module, ModelFacts(...))`` and pass that anywhere a model is taken.
    weights
        "pretrained", or "random": the same shape with weights drawn from `seed`, as a control.
    seed
        Seed of random weights.
    device
        Where the weights shall lie, for example "cuda"; a module of your own is moved in place. None: where they are.

    Raises
    ------
    UserError
        For an unknown name or device, missing weights or packages, or random weights asked of a ready module.

    Examples
    --------
    >>> open_model(nn.Sequential(nn.Linear(2, 3))).hooks()
    ['0']
    """
    if weights not in ("pretrained", "random"):
        raise refuse("weights", "be 'pretrained' or 'random'", repr(weights), "Random weights serve as a control.")
    where = None if device is None else _device(device)
    opened = _open(model, weights, seed)
    if where is not None:
        opened.module.to(where)
    return opened


def _open(model: str | nn.Module | HookedModel, weights: str, seed: int) -> HookedModel:
    if isinstance(model, str):
        library, colon, name = model.partition(":")
        if colon and name and library in LIBRARIES:
            return LIBRARIES[library](name, weights, seed)
        if model not in REGISTRY:
            known = [*REGISTRY, *(f"{library}:NAME" for library in LIBRARIES)]
            raise refuse("model", "be a known name or a torch module", repr(model), closest(model, known))
        return REGISTRY[model](weights, seed)
    if weights == "random":
        raise refuse("weights", "be 'pretrained' for a module of your own", "'random'", "Initialise it yourself.")
    if isinstance(model, HookedModel):
        return model
    return HookedModel(model, ModelFacts(type(model).__name__))


def _device(device: str | torch.device) -> torch.device:
    """A device that is there and holds numbers, tried before a model is opened for it."""
    rule, fix = "name a device of this machine", "For example 'cpu' or 'cuda'."
    try:
        where = torch.device(device)
        torch.zeros(1, device=where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch's own kinds, and its long texts
        why = next(iter(str(error).splitlines()), "not there")
        raise refuse("device", rule, f"{str(device)!r} ({why})", fix) from None
    if where.type == "meta":
        raise refuse("device", rule, "'meta', which holds no numbers", fix)
    return where
