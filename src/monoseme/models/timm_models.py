"""``timm:NAME``: a vision model of timm, with its own transform and weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import derive
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.hugging import RANDOM_CAVEAT
from monoseme.models.picture import as_pixels

__all__ = ["open_timm"]


def open_timm(name: str, weights: str, seed: int) -> HookedModel:
    """Open ``timm:NAME``; weights come from the hub, or from timm's cache of it.

    Raises
    ------
    UserError
        timm is not installed; there is no such model, or its weights cannot be had.
    """
    timm = _library(name)
    try:
        with torch.random.fork_rng(devices=[]):  # the classes draw from the global generator
            torch.manual_seed(derive(seed, "timm"))
            module: Any = timm.create_model(name, pretrained=weights == "pretrained")
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise refuse(
            "model", "name a model of timm", f"'timm:{name}' ({why})", "See timm.list_models(pretrained=True)."
        ) from error
    patch = getattr(getattr(module, "patch_embed", None), "patch_size", None)
    random = weights == "random"
    facts = ModelFacts(
        f"timm:{name}",
        f"random (seed {seed})" if random else "pretrained",
        RANDOM_CAVEAT if random else "",
        d_model=getattr(module, "num_features", None),
        patch=patch[0] if isinstance(patch, (tuple, list)) and len(set(patch)) == 1 else None,
        special_tokens=getattr(module, "num_prefix_tokens", 0),
        preprocess=_preprocess(timm.data, module),
        classes=tuple(getattr(module, "pretrained_cfg", {}).get("label_names") or ()),
    )
    return HookedModel(module.requires_grad_(False).eval(), facts)


def _library(name: str) -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError as error:  # of timm, or of torchvision, which it imports
        missing = error.name or "timm"
        raise refuse(
            "model", "be one that can be opened here", f"'timm:{name}' without {missing}", f"Run: pip install {missing}"
        ) from None


def _preprocess(data: Any, module: nn.Module) -> Callable[[Any], Tensor]:
    """The transform that timm says the weights were evaluated with."""
    from PIL import Image

    transform = data.create_transform(**data.resolve_model_data_config(module), is_training=False)
    return lambda picture: transform(Image.fromarray(as_pixels(picture)))
