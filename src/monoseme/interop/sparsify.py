"""Checkpoints of sparsify (EleutherAI's `eai-sparsify`) as `Featurizer`: a TopK over rows less `b_dec`.

Codes are sparsify's activations times the norm of the decoder row, which is one with ``normalize_decoder``; otherwise
its TopK ranks before the norm, and the species is `RankedTopK`. `multi_topk` changes training alone. Latents that
sparsify lists with activation zero, where fewer than k are positive, are not active here.
"""

from __future__ import annotations

from pathlib import Path

import torch

from monoseme.core.errors import refuse
from monoseme.featurizers import Featurizer
from monoseme.interop.reading import Format, Layers, assemble, folder_cfg, optional, read_tensors, size

__all__ = ["FORMAT", "read"]

FORMAT = Format("sparsify", "sae.safetensors")


def read(path: Path) -> Featurizer:
    """Read the folder of one hookpoint: `cfg.json` and `sae.safetensors`.

    Raises
    ------
    UserError
        What is missing or damaged, a transcoder, a skip connection, signed codes, another activation than top-k.
    """
    cfg = folder_cfg(path, FORMAT)
    activation = optional(cfg, "activation", str, "topk")
    if activation != "topk":
        raise refuse(f"{cfg.path}: activation", "be 'topk'", repr(activation), "Others are not read.")
    for name in ("transcode", "skip_connection", "signed"):
        if optional(cfg, name, bool, False):
            raise refuse(f"{cfg.path}: {name}", "be false", "true", "Only plain autoencoders are read.")
    d_in = size(cfg, "d_in")
    # 0 is sparsify's own default, and means that the factor decides
    chosen = size(cfg, "num_latents", least=0) if "num_latents" in cfg.mapping() else 0
    n_latents = chosen or d_in * size(cfg, "expansion_factor")
    k = size(cfg, "k")
    shapes = {
        "encoder.weight": (n_latents, d_in),
        "encoder.bias": (n_latents,),
        "W_dec": (n_latents, d_in),
        "b_dec": (d_in,),
    }
    tensors = read_tensors(path / FORMAT.weights, shapes)
    layers = Layers(
        encoder=tensors["encoder.weight"],
        encoder_bias=tensors["encoder.bias"],
        decoder=tensors["W_dec"],
        shift=tensors["b_dec"],
        out_bias=torch.zeros_like(tensors["b_dec"]),
    )
    return assemble("TopK" if layers.equal_norms else "RankedTopK", layers, k=k)
