"""What the readers share: two files of a folder, checked, and a featurizer of unit atoms built from their tensors.

Atoms of other libraries have any norm. Here they have norm one and the codes carry it: a code is the other library's
activation times the norm of its decoder row, in raw activation units, and the reconstruction is the same. A row of norm
zero stays as it is, with its activation as code. Weights are rescaled in double precision and kept in single precision
(double where they came so): where the other library computes in half precision, results agree to that precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import read_json
from monoseme.core.parse import Entry
from monoseme.featurizers import Featurizer, build

__all__ = ["CFG", "Format", "Layers", "assemble", "folder_cfg", "optional", "read_tensors", "size", "tensor_shapes"]

T = TypeVar("T")
CFG = "cfg.json"
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Format:
    """Another library's checkpoints: the prefix of their paths in ``ms.load``, and the file that holds the weights."""

    prefix: str
    weights: str


@dataclass(frozen=True)
class Layers:
    """An SAE as other libraries have it: rows of `encoder` and `decoder` are latents, decoder rows of any norm.

    It is x ↦ act((x·scale − shift) encoderᵀ + encoder_bias) ↦ (codes @ decoder + shift + out_bias) / scale.
    """

    encoder: Float[Tensor, "F d"]
    encoder_bias: Float[Tensor, " F"]
    decoder: Float[Tensor, "F d"]
    shift: Float[Tensor, " d"]
    out_bias: Float[Tensor, " d"]
    scale: float = 1.0

    @property
    def norms(self) -> Float[Tensor, " F"]:
        """Norms of the decoder's rows in double precision; one for rows that are zero."""
        norms = self.decoder.double().norm(dim=1)
        return torch.where(norms > 0, norms, torch.ones_like(norms))

    @property
    def equal_norms(self) -> bool:
        """Whether the norms are one number, up to rounding: then ranking before and after them is the same."""
        norms = self.norms
        return bool((norms - norms[0]).abs().max() <= 1e-6 * norms[0])


def folder_cfg(path: Path, form: Format) -> Entry:
    """Return the `cfg.json` of a checkpoint's folder; what is not one is refused with what to name instead."""
    rule = f"be a folder with {CFG} and {form.weights}"
    if path.suffix in PICKLES:
        raise refuse("path", rule, path, "Pickles are never read: save it as safetensors with the library it is from.")
    if not path.is_dir():
        raise refuse("path", rule, f"{path} (no such folder)", "Check the path; nothing is downloaded.")
    if not (path / form.weights).is_file() or not (path / CFG).is_file():
        inside = sorted(str(found.parent.relative_to(path)) for found in path.glob(f"*/{CFG}"))[:3]
        pickles = sorted(found.name for found in path.iterdir() if found.suffix in PICKLES)
        fix = "Is it of another library?"
        if inside:
            fix = f"Name one of the folders in it: {', '.join(inside)}."
        elif pickles:
            fix = f"{pickles[0]} is a pickle and not read: save safetensors with the library it is from."
        raise refuse("path", rule, path, fix)
    cfg = Entry(read_json(path / CFG), str(path / CFG))
    cfg.mapping()
    return cfg


def size(cfg: Entry, key: str, least: int = 1) -> int:
    """Return a count of the configuration, at least `least`."""
    value = cfg.get(key, int)
    if value < least:
        raise refuse(f"{cfg.path}: {key}", f"be at least {least}", value, "The file is damaged.")
    return value


def optional(cfg: Entry, key: str, kind: type[T], default: T) -> T:
    """Return a field of the configuration that may be absent or null."""
    return default if cfg.mapping().get(key) is None else cfg.get(key, kind)


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a safetensors file; only its header is read."""
    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise refuse("path", "hold a safetensors file", f"{path} ({error})", "Copy it again.") from None


def read_tensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Read exactly these tensors, compared in shape before anything is loaded; all floating point and finite."""
    found = tensor_shapes(path)
    for name in sorted(found.keys() - shapes.keys()):
        raise refuse(f"{path}: {name}", "be a tensor of what cfg.json describes", "a surplus one", "See cfg.json.")
    for name, shape in shapes.items():
        if name not in found:
            raise refuse(f"{path}: {name}", "be there", "nothing", f"There are: {', '.join(sorted(found))}.")
        if found[name] != shape:
            rule = f"have the shape {shape} that cfg.json describes"
            raise refuse(f"{path}: {name}", rule, found[name], "The two files do not belong together.")
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise refuse(f"{path}: {name}", "be floating point", tensor.dtype, "The file is damaged.")
        if not bool(torch.isfinite(tensor.float()).all()):  # not every type of eight bits knows the question
            raise refuse(f"{path}: {name}", "be finite", "NaN or infinity", "Training diverged, or it is damaged.")
    return tensors


def assemble(name: str, layers: Layers, theta: Float[Tensor, " F"] | None = None, **arguments: Any) -> Featurizer:
    """Build the species `name` of unit atoms that computes what the layers do.

    Parameters
    ----------
    theta
        Thresholds on the other library's pre-activations (`JumpReLU` only), not negative.
    arguments
        Of the constructor, beside the sizes.
    """
    n_latents, d_in = layers.encoder.shape
    norms = layers.norms
    featurizer = build(name, {"d_in": d_in, "n_blocks": n_latents, "norm": "none", **arguments})
    state = {
        "encoder.weight": norms.unsqueeze(1) * layers.encoder.double(),
        "encoder.bias": norms * layers.encoder_bias.double(),
        "dictionary.weight": layers.decoder.double() / norms.unsqueeze(1),
        "out_bias": layers.out_bias.double(),
        "units.shift": layers.shift.double() / layers.scale,
        "units.scale": torch.tensor(1 / layers.scale, dtype=torch.float64),
        "units.fitted": torch.tensor(True),
    }
    if theta is not None:
        # a threshold is kept as its logarithm; none of a pre-code in single precision lies below the smallest
        smallest = math.log(torch.finfo(torch.float32).tiny)
        state["gate.log_theta"] = (norms * theta.double()).log().clamp_min(smallest)
    if name == "RankedTopK":
        state["gate.rank"] = 1 / norms
    kind = torch.float64 if layers.decoder.dtype == torch.float64 else torch.float32
    for part, tensor in state.items():
        # norms are folded into weights and thresholds here: what was finite apart may leave the range together
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.to(kind)).all()):
            raise refuse("path", "hold weights whose products are finite", f"{part} beyond {kind}", "It is damaged.")
    featurizer.to(kind).load_state_dict(state)
    return featurizer.eval()
