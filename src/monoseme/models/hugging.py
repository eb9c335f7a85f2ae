"""``hf:NAME``: a causal language model or a vision model of Hugging Face, from a local folder or the hub.

Opened as the class that saved it, in its own precision, with weights in safetensors only; code that lies beside a model
is never run. Hook names are those of transformers (``model.layers.3``, ``transformer.h.3``, ``vit.layers.3``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import read_json
from monoseme.core.parse import Entry
from monoseme.core.seeds import derive
from monoseme.models.dinov3 import PROCESSORS, dinov3_preprocess
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.hugging_tokens import HuggingTokenizer
from monoseme.models.picture import as_pixels

__all__ = ["ask", "open_hugging", "read_weights"]

RANDOM_CAVEAT = "Random weights in the shape of this model: a control, not a model."
INDEX = "model.safetensors.index.json"
LONGEST = 160  # characters of what transformers says of an error
LEADING = ("cls_token", "class_embedding", "distillation_token", "register_tokens")  # parameters that are tokens


def open_hugging(name: str, weights: str, seed: int) -> HookedModel:
    """Open ``hf:NAME``.

    A language model takes ``{"input_ids", "attention_mask"}``. Where its forward pass takes positions, they are counted
    by the mask, so that padding on either side gives the same activations; a few models count for themselves.

    Parameters
    ----------
    name
        A folder with ``config.json`` and ``*.safetensors``, or ``owner/name`` on the hub.
    weights
        "pretrained", or "random": as the class draws them, from `seed`.
    seed
        Of random weights.

    Raises
    ------
    UserError
        transformers is not installed; there is no such model, or it has no safetensors, needs its own code, lacks
        weights, or is of another kind; its tokenizer has ids beyond its embedding.
    """
    try:
        import transformers
    except ImportError:
        raise refuse(
            "model",
            "be one that can be opened here",
            f"'hf:{name}' without transformers",
            "Run: pip install transformers",
        ) from None
    config = ask(name, lambda: transformers.AutoConfig.from_pretrained(name, trust_remote_code=False))
    kind = _class(name, config)
    module, said = _module(name, kind, config, weights, seed)
    facts: dict[str, Any] = {"weights": said, "caveat": RANDOM_CAVEAT if weights == "random" else ""}
    facts["d_model"] = getattr(config, "hidden_size", None)
    facts |= _picture_facts(name, module, config) if _sees(kind) else _text_facts(name, module, config)
    return HookedModel(module, ModelFacts(f"hf:{name}", **facts))


def ask(name: str, call: Callable[[], Any]) -> Any:
    """Call transformers; whatever it cannot do becomes one line."""
    try:
        return call()
    except UserError:
        raise
    except Exception as error:  # of any type: what it reads may be anything
        why = " ".join(str(error).split())[:LONGEST] or type(error).__name__
        raise refuse(
            "model",
            "name a folder or a hub repository that transformers reads from safetensors, without code of its own",
            f"'hf:{name}' ({why})",
            "Check the name, the connection, and the files.",
        ) from error


def _class(name: str, config: Any) -> Any:
    """The class that saved the model, if it is a causal language model or reads pictures."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    listed = config.architectures
    written = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else "none"
    kind = getattr(transformers, written, None)
    known = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    causal = any(written == value or written in value for value in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    if not known or not (causal or _sees(kind)):
        raise refuse(
            "model",
            "be a causal language model or a vision model",
            f"'hf:{name}', whose config.json says architectures: {written}",
            "Open it yourself and pass HookedModel(module, ModelFacts(...)).",
        )
    return kind


def _sees(kind: Any) -> bool:
    return kind.main_input_name == "pixel_values"


def _module(name: str, kind: Any, config: Any, weights: str, seed: int) -> tuple[nn.Module, str]:
    if weights == "random":
        with torch.random.fork_rng(devices=[]):  # the classes draw from the global generator
            torch.manual_seed(derive(seed, "hugging"))
            module = ask(name, lambda: kind(config))
        return module.requires_grad_(False).eval(), f"random (seed {seed})"
    return read_weights(name, kind, config), "pretrained"


def read_weights(name: str, kind: Any, config: Any) -> nn.Module:
    """Open a model's class, or an auto class, with all its weights, from safetensors only; frozen, not training."""
    _check_index(name)
    about = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    module, report = ask(name, lambda: kind.from_pretrained(name, config=config, **about))
    # transformers would leave these as drawn at random, with no more than a line in its log
    gone = sorted({str(key) for part in ("missing_keys", "mismatched_keys") for key in report[part]})
    if gone:
        shown = f"'hf:{name}', whose files lack {len(gone)}, first {gone[0]}"
        raise refuse("model", "have all its weights", shown, "Use complete weights, or weights='random' as a control.")
    return module.requires_grad_(False).eval()


def _check_index(name: str) -> None:
    """Refuse an index of shards that names a pickle among them: transformers would open it as one."""
    from transformers.utils.hub import cached_file

    about = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    place = ask(name, lambda: cached_file(name, INDEX, **about))
    if place is None:
        return
    files = Entry(read_json(Path(place)), f"hf:{name}: {INDEX}").get("weight_map", dict).values()
    if wrong := [file for file in files if not str(file).endswith(".safetensors")]:
        raise refuse("model", "have its weights in safetensors", f"'hf:{name}' with {wrong[0]}", "Convert them first.")


def _text_facts(name: str, module: Any, config: Any) -> dict[str, Any]:
    from transformers import AutoTokenizer

    tokenizer = HuggingTokenizer(ask(name, lambda: AutoTokenizer.from_pretrained(name, trust_remote_code=False)))
    rows = module.get_input_embeddings().num_embeddings
    if tokenizer.vocabulary > rows:
        raise refuse(
            "model",
            "come with its own tokenizer",
            f"'hf:{name}' with a tokenizer mismatch: ids up to {tokenizer.vocabulary - 1}, but {rows} embedded tokens",
            "Save the tokenizer that the model was trained with beside it.",
        )
    config.use_cache = False  # keys of earlier tokens are of no use to one pass
    if "position_ids" in inspect.signature(module.forward).parameters:
        module.register_forward_pre_hook(_count_positions, with_kwargs=True)
    return {"tokenizer": tokenizer, "context": getattr(config, "max_position_embeddings", None)}


def _count_positions(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Number the real tokens of each row from 0."""
    mask = kwargs.get("attention_mask")
    if mask is None or kwargs.get("position_ids") is not None:
        return args, kwargs
    return args, {**kwargs, "position_ids": (mask.long().cumsum(-1) - 1).clamp(min=0)}


def _picture_facts(name: str, module: nn.Module, config: Any) -> dict[str, Any]:
    tokens = [parameter for path, parameter in module.named_parameters() if path.rpartition(".")[2] in LEADING]
    facts: dict[str, Any] = {"special_tokens": sum(token.numel() // config.hidden_size for token in tokens)}
    if isinstance(getattr(config, "patch_size", None), int):
        facts["patch"] = config.patch_size
    if type(module).__name__.endswith("ForImageClassification"):
        facts["classes"] = tuple(config.id2label[i] for i in range(config.num_labels))
    facts["preprocess"] = _preprocess(name)
    return facts


def _preprocess(name: str) -> Callable[[Any], Tensor]:
    from transformers import AutoImageProcessor
    from transformers.image_processing_utils import BaseImageProcessor

    config, _ = ask(name, lambda: BaseImageProcessor.get_image_processor_dict(name))
    if config.get("image_processor_type") in PROCESSORS:
        return dinov3_preprocess(f"hf:{name}", config)
    processor = ask(name, lambda: AutoImageProcessor.from_pretrained(name, trust_remote_code=False))

    def preprocess(picture: Any) -> Tensor:
        """(H, W, 3) uint8 picture to the model's (3, H, W), as its processor does."""
        return torch.as_tensor(np.asarray(processor(as_pixels(picture), return_tensors="np")["pixel_values"][0]))

    return preprocess
