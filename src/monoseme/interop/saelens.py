"""Checkpoints of SAELens 6 and their older, flat configurations, as `Featurizer`.

What is read and as which species of the zoo, exactly:

| architecture | here |
|---|---|
| standard | `ReLU` |
| topk, abstopk | `TopK`, or `RankedTopK` where atoms of unequal norm are ranked before they are weighed |
| jumprelu | `JumpReLU`. This is also what SAELens saves of batchtopk and matryoshka_batchtopk for inference |
| batchtopk, matryoshka_batchtopk | `JumpReLU` with the one threshold of the training checkpoint, as at its inference |
| gated | `JumpReLU`: encoder and gate share their weights, so u > −b_gate ⟺ e^r u + b_mag > b_mag − e^r b_gate |

``apply_b_dec_to_input`` is the shift of the units, the factor of an intermediate checkpoint's `activation_scaler.json`
their scale. Codes are SAELens' activations times the norm of the decoder row (see `reading`); where
``rescale_acts_by_decoder_norm`` is set, SAELens' own activations have that norm in them already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import read_json
from monoseme.core.parse import Entry
from monoseme.featurizers import Featurizer
from monoseme.interop.reading import (
    CFG,
    Format,
    Layers,
    assemble,
    folder_cfg,
    optional,
    read_tensors,
    size,
    tensor_shapes,
)

__all__ = ["FORMAT", "read"]

FORMAT = Format("saelens", "sae_weights.safetensors")
SCALER = "activation_scaler.json"
BATCH = ("batchtopk", "matryoshka_batchtopk")
READ = ("standard", "topk", "abstopk", "jumprelu", *BATCH, "gated")
OLD_NAMES = {"activation_fn_str": "activation_fn", "hook_point": "hook_name"}


def read(path: Path) -> Featurizer:
    """Read a folder that SAELens wrote: `cfg.json` and `sae_weights.safetensors`.

    Raises
    ------
    UserError
        What is missing, damaged, or not among the architectures and normalisations that can be read exactly.
    """
    cfg = _modern(folder_cfg(path, FORMAT))
    architecture = optional(cfg, "architecture", str, "standard")
    if architecture not in READ:
        fix = f"Read are: {', '.join(READ)}."
        raise refuse(f"{cfg.path}: architecture", "be one that can be read", repr(architecture), fix)
    _check_plain(cfg)
    d_in, d_sae = size(cfg, "d_in"), size(cfg, "d_sae")
    tensors = _tensors(path / FORMAT.weights, architecture, d_in, d_sae)
    scale = _scale(cfg, path)
    b_dec, applied = tensors["b_dec"], optional(cfg, "apply_b_dec_to_input", bool, True)
    zero = torch.zeros_like(b_dec)
    layers = Layers(
        encoder=tensors["W_enc"].T,
        encoder_bias=tensors["b_enc"] if "b_enc" in tensors else tensors["b_mag"],
        decoder=tensors["W_dec"],
        shift=b_dec if applied else zero,
        out_bias=zero if applied else b_dec,
        scale=scale,
    )
    return _featurizer(architecture, cfg, layers, tensors)


def _featurizer(architecture: str, cfg: Entry, layers: Layers, tensors: Mapping[str, Tensor]) -> Featurizer:
    rescaled = optional(cfg, "rescale_acts_by_decoder_norm", bool, False)
    if rescaled:  # by a norm of zero as well: such a latent is never active
        on = layers.decoder.any(1)
        layers = replace(layers, encoder=layers.encoder * on.unsqueeze(1), encoder_bias=layers.encoder_bias * on)
    if architecture == "standard":
        return assemble("ReLU", layers)
    if architecture in ("topk", "abstopk"):
        name = "TopK" if rescaled or layers.equal_norms else "RankedTopK"
        return assemble(name, layers, k=size(cfg, "k"), sign="free" if architecture == "abstopk" else "nonneg")
    if architecture == "gated":
        growth = tensors["r_mag"].double().exp()
        theta = (tensors["b_mag"].double() - growth * tensors["b_gate"].double()).clamp_min(0)
        grown = replace(layers, encoder=growth.unsqueeze(1) * layers.encoder.double())
        return assemble("JumpReLU", grown, theta)
    if architecture == "jumprelu":
        return assemble("JumpReLU", layers, tensors["threshold"])
    # SAELens compares the threshold with activations that have the norm in them, where it rescales
    theta = tensors["topk_threshold"].expand(len(layers.norms))
    return assemble("JumpReLU", layers, theta.double() / layers.norms if rescaled else theta)


def _modern(cfg: Entry) -> Entry:
    """Configuration with the field names of version 6; in older ones everything stood flat, and TopK was a ReLU's."""
    fields = {OLD_NAMES.get(name, name): value for name, value in cfg.mapping().items()}
    flat = "metadata" not in fields
    modern = Entry(fields, cfg.path)
    activation = optional(modern, "activation_fn", str, "relu")
    if activation not in ("relu", "topk"):
        raise refuse(f"{cfg.path}: activation_fn", "be 'relu' or 'topk'", repr(activation), "Others are not read.")
    if activation == "topk":
        more = Entry(optional(modern, "activation_fn_kwargs", dict, {}), f"{cfg.path}: activation_fn_kwargs")
        fields |= {"architecture": "topk", "k": size(more, "k")}
    if flat and "hook_z" in optional(modern, "hook_name", str, ""):
        fields.setdefault("reshape_activations", "hook_z")
    if isinstance(fields.get("normalize_activations"), bool):
        fields["normalize_activations"] = "expected_average_only_in" if fields["normalize_activations"] else "none"
    return modern


def _check_plain(cfg: Entry) -> None:
    reshape = optional(cfg, "reshape_activations", str, "none")
    if reshape != "none":
        fix = "SAEs over heads are not read."
        raise refuse(f"{cfg.path}: reshape_activations", "be 'none'", repr(reshape), fix)
    normalise = optional(cfg, "normalize_activations", str, "none")
    if normalise not in ("none", "expected_average_only_in"):
        fix = "It changes with every row; such SAEs are not read."
        if normalise == "covariance_whitening":
            fix = "Fold it into the weights first, with SAELens: fold_activation_whitening, then save_model."
        rule = "be 'none' or 'expected_average_only_in'"
        raise refuse(f"{cfg.path}: normalize_activations", rule, repr(normalise), fix)


def _scale(cfg: Entry, path: Path) -> float:
    """The factor on the input. A final checkpoint has it in its weights; an intermediate one beside them."""
    normalise = optional(cfg, "normalize_activations", str, "none")
    scaler = Entry(read_json(path / SCALER), str(path / SCALER)) if (path / SCALER).is_file() else None
    factor = None
    if scaler is not None:
        if optional(scaler, "has_whitening", bool, False):
            fix = "Fold it into the weights first, with SAELens: fold_activation_whitening, then save_model."
            raise refuse(f"{scaler.path}: has_whitening", "be false", "true", fix)
        factor = scaler.mapping().get("scaling_factor")
        number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
        if factor is not None and not (number and 0 < factor < math.inf):
            fix = "It is √d_in ÷ the mean norm of the training rows."
            raise refuse(f"{scaler.path}: scaling_factor", "be a positive number or null", repr(factor), fix)
    if normalise == "none":
        if factor is not None:
            raise refuse(
                f"{path / SCALER}: scaling_factor", f"be null when {CFG} normalises nothing", factor, "Drop it."
            )
        return 1.0
    if factor is None:
        rule = f"stand beside a {CFG} with {normalise}"
        fix = 'Write {"scaling_factor": s}, s = √d_in ÷ the mean norm of the training rows.'
        raise refuse(f"{path / SCALER}: scaling_factor", rule, "nothing", fix)
    try:
        return float(factor)
    except OverflowError:
        raise refuse(f"{path / SCALER}: scaling_factor", "fit a float", "a longer number", "It is damaged.") from None


def _tensors(path: Path, architecture: str, d_in: int, d_sae: int) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"W_enc": (d_in, d_sae), "W_dec": (d_sae, d_in), "b_dec": (d_in,)}
    shapes |= dict.fromkeys(("b_gate", "b_mag", "r_mag") if architecture == "gated" else ("b_enc",), (d_sae,))
    names = tensor_shapes(path)
    if architecture == "jumprelu":
        shapes["log_threshold" if "log_threshold" in names else "threshold"] = (d_sae,)
    if architecture in BATCH:
        shapes["topk_threshold"] = ()
    # of an old fine-tuning: a factor on every activation, which most files carry without having been tuned
    extra = [name for name in ("scaling_factor", "finetuning_scaling_factor") if name in names]
    tensors = read_tensors(path, shapes | dict.fromkeys(extra, (d_sae,)))
    for name in extra:
        if not bool((tensors.pop(name) == 1).all()):
            fix = "Multiply W_dec by it, and leave it out."
            raise refuse(f"{path}: {name}", "be all ones", "other factors", fix)
    if "log_threshold" in tensors:
        tensors["threshold"] = tensors.pop("log_threshold").double().exp()
    for name in ("threshold", "topk_threshold"):
        if name in tensors and bool((tensors[name] < 0).any()):
            got = float(tensors[name].min())
            raise refuse(f"{path}: {name}", "not be negative", got, "It was never estimated, or is damaged.")
    return tensors
