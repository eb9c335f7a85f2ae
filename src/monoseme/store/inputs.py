"""From a sample to the model's input, and from a batch to its activations."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models import HookedModel
from monoseme.store.sources import Sample, Source

__all__ = ["activations", "first_input", "model_input"]


def activations(model: HookedModel, x: Shaped[Tensor, "B ..."], at: str) -> Float[Tensor, "B T d"]:
    """Run the model on a batch; the output must keep its samples apart."""
    tokens = model.run(x.to(model.device), at=at)
    if len(tokens) != len(x):
        raise refuse(
            "at", "keep samples apart on the first axis", f"{at!r} with {len(tokens)} for {len(x)} samples",
            "Hook a module before samples are merged.",
        )  # fmt: skip
    return tokens


def model_input(model: HookedModel, item: Any) -> Tensor:
    """One sample as the model takes it, without a batch axis."""
    if isinstance(item, Sample):
        if model.preprocess is None:
            raise refuse(
                "model",
                "know how to turn a picture into its input",
                f"{model.name} without preprocess",
                "Build HookedModel(module, ModelFacts(name, preprocess=...)), or bring tensors.",
            )
        x = model.preprocess(item.image)
        return x.to(model.dtype) if x.dtype == torch.float32 else x  # another type was chosen for a reason
    if isinstance(item, (Tensor, np.ndarray)):
        return torch.as_tensor(item)
    raise refuse(
        "data",
        "hold samples or tensors",
        type(item).__name__,
        "A folder: PictureFolder(path). A picture: store.Sample.",
    )


def first_input(model: HookedModel, source: Source, i: int) -> tuple[Shaped[Tensor, "1 ..."], str]:
    """Input of one sample as a batch of one, and a hash of its bytes."""
    x = model_input(model, source[i])
    plain = x.detach().cpu().contiguous()
    return plain.unsqueeze(0), hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy().data).hexdigest()
