"""Featurizers on disk: one folder, `featurizer.safetensors` and `featurizer.json`. Nothing is ever unpickled.

The format keeps apart, from its first version, what other libraries fold together: input shift, input scale, output
bias, and a per-row affine (LayerNorm-style SAEs), which is named so that a later writer can use it and an older
reader refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_folder, read_json, write_json, write_tensors
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.zoo import build

__all__ = ["load", "save"]

FORMAT = "monoseme-featurizer"
VERSION = 1
WEIGHTS, MANIFEST = "featurizer.safetensors", "featurizer.json"


def save(featurizer: Featurizer, path: Path) -> Path:
    """Write the folder `path`, all or nothing; an existing featurizer there is replaced."""
    if path.exists() and not (path / MANIFEST).exists():
        raise refuse("path", "be new or hold a featurizer", path, "Choose another folder; nothing was overwritten.")
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


def load(path: str | Path) -> Featurizer:
    """Read a featurizer from its folder, or from a run that holds one.

    Raises
    ------
    UserError
        If the folder holds no featurizer, a newer format, or tensors that do not fit.
    """
    folder = Path(path)
    if not (folder / MANIFEST).exists() and (folder / "featurizer" / MANIFEST).exists():
        folder = folder / "featurizer"
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise refuse("path", f"hold the format {FORMAT}", folder, "Was it written by monoseme?")
    if manifest.get("version") != VERSION or manifest.get("row_affine") is not None:
        raise refuse("path", f"be of version {VERSION} without a row affine", folder, "Update monoseme.")
    featurizer = build(manifest["name"], manifest["arguments"])
    try:
        featurizer.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError, OSError) as error:
        got = f"{folder / WEIGHTS}: {error}"
        raise refuse("path", "hold the tensors its JSON describes", got, "Copy it again.") from None
    return featurizer.eval()
