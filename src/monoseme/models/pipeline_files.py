"""``diffusers:NAME``: a pipeline of diffusers (SDXL, Stable Diffusion, ...), from a local folder or the hub.

Every network is opened as the class that ``model_index.json`` names, which must be one of diffusers or of transformers;
weights are read from safetensors only, in single precision, and must be complete. Code beside a model is never run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import read_json
from monoseme.core.parse import Entry
from monoseme.core.seeds import derive
from monoseme.models.facts import ModelFacts
from monoseme.models.hugging import LONGEST, RANDOM_CAVEAT
from monoseme.models.pipelines import HookedPipeline

__all__ = ["open_pipeline"]

LIBRARIES = ("diffusers", "transformers")


def open_pipeline(name: str, weights: str, seed: int) -> HookedPipeline:
    """Open ``diffusers:NAME``. To state the options of a generation, build ``HookedPipeline(pipeline, ...)``.

    Parameters
    ----------
    name
        A folder with ``model_index.json``, or ``owner/name`` on the hub.
    weights
        "pretrained", or "random": every network as its class draws it, from `seed`; only its configuration is read.
    seed
        Of random weights.

    Raises
    ------
    UserError
        diffusers is not installed; there is no such pipeline, or it has no safetensors, needs its own code, lacks
        weights, or has no denoiser.
    """
    try:
        diffusers: Any = importlib.import_module("diffusers")
    except ImportError as error:
        missing = error.name or "diffusers"
        rule, fix = "be one that can be opened here", 'Run: pip install "monoseme[diffusers]"'
        raise refuse("model", rule, f"'diffusers:{name}' without {missing}", fix) from None
    kind = diffusers.DiffusionPipeline
    random = weights == "random"
    place = name if random or Path(name).is_dir() else _ask(name, lambda: kind.download(name, use_safetensors=True))
    _check_indices(name, Path(place))
    index = _ask(name, lambda: kind.load_config(place))
    parts = {part: _network(name, part, written) for part, written in index.items() if _is_part(written)}
    with torch.random.fork_rng(devices=[]):  # the classes draw from the global generator
        torch.manual_seed(derive(seed, "diffusers"))
        made = {part: _made(name, place, part, net, random) for part, net in parts.items() if net is not None}
    pipeline = _ask(name, lambda: kind.from_pretrained(place, use_safetensors=True, **made))
    said, caveat = (f"random (seed {seed})", RANDOM_CAVEAT) if random else ("pretrained", "")
    return HookedPipeline(pipeline, facts=ModelFacts(f"diffusers:{name}", said, caveat))


def _ask(name: str, call: Callable[[], Any]) -> Any:
    """Call diffusers; whatever it cannot do becomes one line."""
    try:
        return call()
    except UserError:
        raise
    except Exception as error:  # of any type: what it reads may be anything
        why = " ".join(str(error).split())[:LONGEST] or type(error).__name__
        rule = "name a folder or a hub repository that diffusers reads from safetensors, without code of its own"
        raise refuse(
            "model", rule, f"'diffusers:{name}' ({why})", "Check the name, the connection, and the files."
        ) from error


def _check_indices(name: str, folder: Path) -> None:
    """Refuse an index of shards that names a pickle among them: the libraries would open it as one."""
    for place in sorted(folder.glob("*/*.safetensors.index*.json")):
        files = Entry(read_json(place), f"diffusers:{name}: {place.name}").get("weight_map", dict).values()
        if wrong := [file for file in files if not str(file).endswith(".safetensors")]:
            got = f"'diffusers:{name}' with {wrong[0]}"
            raise refuse("model", "have its weights in safetensors", got, "Convert them first.")


def _is_part(kind: Any) -> bool:
    return isinstance(kind, (list, tuple)) and len(kind) == 2 and kind[0] is not None


def _network(name: str, part: str, kind: Any) -> Any:
    """The class of a part, if it is a network; None for schedulers, tokenizers and the like."""
    library, written = kind
    # some pipelines have classes of their own, named by the pipeline's folder inside diffusers
    own = getattr(importlib.import_module("diffusers.pipelines"), str(library), None)
    found = getattr(importlib.import_module(library) if library in LIBRARIES else own, str(written), None)
    if not isinstance(found, type):
        rule, got = "be made of parts of diffusers and transformers", f"'diffusers:{name}' whose {part} is {library}'s"
        raise refuse("model", rule, got, "Build the pipeline yourself and pass HookedPipeline(pipeline).")
    return found if issubclass(found, nn.Module) else None


def _made(name: str, place: str, part: str, kind: Any, random: bool) -> nn.Module:
    if random:
        return _ask(name, lambda: _drawn(place, part, kind)).requires_grad_(False).eval()
    about = {"subfolder": part, "use_safetensors": True, "output_loading_info": True, "torch_dtype": torch.float32}
    if hasattr(kind, "config_class"):  # transformers has another word for it
        about["dtype"] = about.pop("torch_dtype")
    module, report = _ask(name, lambda: kind.from_pretrained(place, **about))
    # either library would leave these as drawn at random, with no more than a line in its log
    gone = sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]])
    if gone:
        got = f"'diffusers:{name}', whose {part} lacks {len(gone)}, first {gone[0]}"
        raise refuse("model", "have all its weights", got, "Use complete weights, or weights='random' as a control.")
    return module.requires_grad_(False).eval()


def _drawn(place: str, part: str, kind: Any) -> nn.Module:
    """A network of this class and configuration, as the class draws it."""
    if hasattr(kind, "config_class"):
        return kind(kind.config_class.from_pretrained(place, subfolder=part))
    return kind.from_config(kind.load_config(place, subfolder=part))
