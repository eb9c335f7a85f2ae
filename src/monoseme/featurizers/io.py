"""Featurizers on disk: one folder, `featurizer.safetensors` and `featurizer.json`. Nothing is ever unpickled.

The format keeps apart, from its first version, what other libraries fold together: input shift, input scale, output
bias, and a per-row affine (LayerNorm-style SAEs), which is named so that a later writer can use it and an older
reader refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_folder, read_json, settle_folder, write_json, write_tensors
from monoseme.core.parse import Entry
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.zoo import build

__all__ = ["check_target", "load", "save"]

FORMAT = "monoseme-featurizer"
VERSION = 1
WEIGHTS, MANIFEST = "featurizer.safetensors", "featurizer.json"


def save(featurizer: Featurizer, path: Path) -> Path:
    """Write the folder `path`, all or nothing; an existing featurizer there is replaced."""
    settle_folder(path)
    check_target(path)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **featurizer.recipe,
        "input_shift": "units.shift",
        "input_scale": "units.scale",
        "output_bias": "out_bias",
        "row_affine": None,
    }
    with atomic_folder(path) as folder:
        write_tensors(folder / WEIGHTS, featurizer.state_dict())
        write_json(folder / MANIFEST, manifest)
    return path


def check_target(path: Path) -> None:
    """Raise when a featurizer must not be written to `path`, because something else lies there."""
    if path.exists() and not (path / MANIFEST).exists():
        raise refuse("path", "be new or hold a featurizer", path, "Choose another folder; nothing was overwritten.")


def load(path: str | Path) -> Featurizer:
    """Read a featurizer from its folder, or from a run that holds one.

    Raises
    ------
    UserError
        If the folder holds no featurizer, a newer format, a damaged file, or tensors that do not fit.
    """
    folder = Path(path)
    if not (folder / MANIFEST).exists() and (folder / "featurizer" / MANIFEST).exists():
        folder = folder / "featurizer"
    if not (folder / MANIFEST).exists() and (folder / "manifest.json").exists():
        raise refuse("path", "hold a featurizer", f"{folder}: this is a store", "Fit a featurizer on it first.")
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise refuse("path", f"hold the format {FORMAT}", folder, "Was it written by monoseme?")
    if manifest.get("version") != VERSION or manifest.get("row_affine") is not None:
        raise refuse("path", f"be of version {VERSION} without a row affine", folder, "Update monoseme.")
    root = Entry(manifest, str(folder / MANIFEST))
    name, arguments = root.get("name", str), root.get("arguments", dict)
    sizes = Entry(arguments, f"{root.path}: arguments")
    try:
        # compared before anything is built: a wrong size in the JSON must not take all memory
        with safe_open(str(folder / WEIGHTS), framework="pt") as file:
            shape = file.get_slice("dictionary.weight").get_shape()
        block_size = sizes.get("block_size", int) if "block_size" in arguments else 1
        if shape != [sizes.get("n_blocks", int) * block_size, sizes.get("d_in", int)]:
            raise RuntimeError(f"atoms of shape {shape}")
        featurizer, tensors = build(name, arguments), load_file(folder / WEIGHTS)
        for key, tensor in tensors.items():
            # a threshold that is not a number would switch every block off without a word
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise RuntimeError(f"{key} with NaN or infinity")
        if not tensors["dictionary.weight"].is_floating_point():
            raise RuntimeError(f"atoms of type {tensors['dictionary.weight'].dtype}")
        featurizer.to(tensors["dictionary.weight"].dtype).load_state_dict(tensors)
    except (SafetensorError, RuntimeError, OSError) as error:
        got = f"{folder / WEIGHTS}: {error}"
        raise refuse("path", "hold the tensors its JSON describes", got, "Copy it again.") from None
    return featurizer.eval()
