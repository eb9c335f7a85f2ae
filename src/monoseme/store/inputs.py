"""From a sample to the model's input, and from a batch to its activations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.models import HookedModel
from monoseme.store.sources import Sample
from monoseme.store.windows import Window, Windows, mismatch

__all__ = ["activations", "known_ids", "model_input"]

# what a RuntimeError of torch says when the machine is at fault, not the data
MACHINE = ("not enough memory", "out of memory", "CUDA error", "CUBLAS", "CUDNN", "cuDNN error")


def activations(model: HookedModel, x: Tensor | dict[str, Tensor], at: str) -> Float[Tensor, "B T d"]:
    """Run the model on a batch; the output must keep its samples apart."""
    if isinstance(x, dict):
        moved: Any = {name: tensor.to(model.device) for name, tensor in x.items()}
        samples = len(x["input_ids"])
    else:
        moved, samples = x.to(model.device), len(x)
    tokens = _run(model, moved, at)
    if len(tokens) != samples:
        raise refuse(
            "at", "keep samples apart on the first axis", f"{at!r} with {len(tokens)} for {samples} samples",
            "Hook a module before samples are merged.",
        )  # fmt: skip
    return tokens


def _run(model: HookedModel, x: Any, at: str) -> Float[Tensor, "B T d"]:
    """Run the model; what its own layers say about an input they cannot take becomes one line about the data."""
    try:
        return model.run(x, at=at)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if any(word in str(error) for word in MACHINE):
            raise
        sample = next(iter(x.values())) if isinstance(x, dict) else x
        shape = ", ".join(map(str, ("B", *sample.shape[1:])))
        raise refuse(
            "data", f"be what {model.name} takes", f"({shape}), on which it fails: {error}",
            "Give samples of the shape and type it was made for.",
        ) from error  # fmt: skip


def model_input(model: HookedModel, item: Any) -> Tensor:
    """One sample as the model takes it, without a batch axis; of a text, its token ids."""
    if isinstance(item, Window):
        return torch.from_numpy(item.ids.astype(np.int64))
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


@contextmanager
def known_ids(model: HookedModel, text: Windows | None, x: Tensor | dict[str, Tensor]) -> Iterator[None]:
    """Within the ``with``, the embedding that reads the tokens of `x` must have a row for every id of the text."""

    def check(module: nn.Module, args: tuple[Any, ...]) -> None:
        assert text is not None
        assert isinstance(x, dict)
        assert isinstance(module, nn.Embedding)
        # positions and segments are embedded too: the tokens' embedding is the one that is given the ids themselves
        reads = bool(args) and isinstance(args[0], Tensor) and torch.equal(args[0].cpu(), x["input_ids"])
        if reads and text.highest >= module.num_embeddings:
            raise mismatch(text.highest, f"0..{module.num_embeddings - 1}, the embedding of {model.name}")

    embeddings = [child for child in model.module.modules() if isinstance(child, nn.Embedding)]
    handles = [child.register_forward_pre_hook(check) for child in embeddings if text is not None]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
