"""Image networks on disk: one safetensors file, with names of activations, labels and origins in its header."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open

from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse
from monoseme.core.files import write_tensors
from monoseme.core.parse import Entry

__all__ = ["load_network", "save_network"]

FORMAT, VERSION = "monoseme.image-network", "1"


def save_network(network: ImageNetwork, path: Path | str) -> None:
    """Write it, atomically: ``weight0``…, ``mask0``… and a header."""
    tensors = {f"weight{i}": w.detach() for i, w in enumerate(network.weights)}
    tensors |= {f"mask{i}": mask for i, mask in enumerate(network.masks)}
    about = {
        "activations": [list(bank.names) for bank in network.banks],
        "labels": [[*entry, name] for entry, name in sorted(network.labels.items())],
        "origin": [[*entry, name] for entry, name in sorted(network.origin.items())],
    }
    write_tensors(Path(path), tensors, {"format": FORMAT, "version": VERSION, "about": json.dumps(about)})


def load_network(path: Path | str) -> ImageNetwork:
    """Read what `save_network` wrote; anything else is refused in one line."""
    path = Path(path)
    fix = "Give a file that save_network wrote."
    try:
        with safe_open(path, "pt") as file:
            header, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise refuse(
            "network", "be a safetensors file", f"{path} ({' '.join(str(error).split())[:100]})", fix
        ) from None
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise refuse("network", f"be {FORMAT} {VERSION}", header.get("format", "something else"), fix)
    try:
        about = json.loads(header["about"])
    except (KeyError, json.JSONDecodeError):
        raise refuse("network", "have a whole header", path, fix) from None
    root = Entry(about, f"{path}: about")
    activations = [[str(name) for name in names] for names in root.get("activations", list)]
    many = len(activations) + 1
    wanted = {f"{kind}{i}" for kind in ("weight", "mask") for i in range(many)}
    if set(tensors) != wanted:
        raise refuse("network", f"hold {many} weights and masks", ", ".join(sorted(tensors))[:100], fix)
    named = [
        {(int(a), int(b), int(c)): str(name) for a, b, c, name in root.get(key, list)} for key in ("labels", "origin")
    ]
    network = ImageNetwork([tensors[f"weight{i}"] for i in range(many)], activations, *named)
    for i, mask in enumerate(network.masks):
        if tensors[f"mask{i}"].shape != mask.shape:
            raise refuse("network", f"have a mask of {tuple(mask.shape)}", tuple(tensors[f"mask{i}"].shape), fix)
        mask.copy_(tensors[f"mask{i}"])
    return network
