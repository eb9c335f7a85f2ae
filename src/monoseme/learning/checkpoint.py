"""A checkpoint: one safetensors file and one JSON file in a folder that is replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_folder, read_json, settle_folder, sha256, write_json, write_tensors
from monoseme.core.parse import Entry

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

FORMAT, VERSION = "monoseme.checkpoint", 1
States = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True)
class Checkpoint:
    """A run after `step` whole steps.

    Attributes
    ----------
    run
        Plain JSON values that identify the run: settings, data, shapes. Another run's checkpoint is refused.
    step, finished
        Steps done; whether the objects' `finish` was called.
    seconds
        Time spent training, all sessions together.
    objects, optimisers
        State of each object and of its optimiser, by the object's name.
    """

    run: Mapping[str, Any]
    step: int
    finished: bool
    seconds: float
    objects: States
    optimisers: States


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder` atomically: at every moment it holds the previous checkpoint or the new one.

    Raises
    ------
    OSError
        When the disk is full; the previous checkpoint stays.
    """
    names = list(checkpoint.objects)
    groups = {"object": checkpoint.objects, "optimiser": checkpoint.optimisers}
    # objects go by their place, so that a name may hold any character
    tensors = {
        f"{group}/{place}/{key}": tensor
        for group, states in groups.items()
        for place, name in enumerate(names)
        for key, tensor in states[name].items()
    }
    with atomic_folder(folder) as new:
        write_tensors(new / "tensors.safetensors", tensors)
        about = {
            "format": FORMAT,
            "version": VERSION,
            "run": checkpoint.run,
            "step": checkpoint.step,
            "finished": checkpoint.finished,
            "seconds": checkpoint.seconds,
            "objects": names,
            "sha256": sha256(new / "tensors.safetensors"),
        }
        write_json(new / "checkpoint.json", about)


def load_checkpoint(folder: Path, run: Mapping[str, Any]) -> Checkpoint | None:
    """Read the checkpoint in `folder`, after tidying up behind a killed writer; ``None`` when there is none.

    Raises
    ------
    UserError
        When it is damaged, of another version, or belongs to another run than `run`.
    """
    folder = Path(folder)
    settle_folder(folder)
    if not folder.exists():
        return None
    about = read_json(folder / "checkpoint.json")
    if not isinstance(about, dict) or (about.get("format"), about.get("version")) != (FORMAT, VERSION):
        raise refuse(
            "out", f"hold a {FORMAT} of version {VERSION}", folder, "Use the release that wrote it, or another folder."
        )
    root = Entry(about, str(folder / "checkpoint.json"))
    _refuse_other_run(folder, root.get("run", dict), run)
    tensors = _read_tensors(folder / "tensors.safetensors", root.get("sha256", str))
    names = root.get("objects", list)

    def states(group: str) -> dict[str, dict[str, Tensor]]:
        return {str(name): _within(tensors, f"{group}/{place}/") for place, name in enumerate(names)}

    return Checkpoint(
        run=root.get("run", dict),
        step=root.get("step", int),
        finished=root.get("finished", bool),
        seconds=root.get("seconds", float),
        objects=states("object"),
        optimisers=states("optimiser"),
    )


def _refuse_other_run(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Name the first setting that differs."""
    here = json.loads(json.dumps(here))
    old, new = _leaves(there), _leaves(here)
    for key in [*old, *(key for key in new if key not in old)]:
        if old.get(key) != new.get(key):
            was, now = old.get(key, "nothing"), new.get(key, "nothing")
            raise refuse(
                "out",
                "hold a checkpoint of this run, or none",
                f"one with {key} = {was} where this run has {now}, in {folder}",
                "Go on with the same settings and data, choose another folder, or pass resume=False to start over.",
            )


def _leaves(value: object, path: str = "") -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        name: leaf
        for key, part in value.items()
        for name, leaf in _leaves(part, f"{path}.{key}" if path else str(key)).items()
    }


def _read_tensors(path: Path, digest: str) -> dict[str, Tensor]:
    try:
        if sha256(path) == digest:
            # copies: the file is replaced while they live
            return {key: tensor.clone() for key, tensor in load_file(path).items()}
    except (FileNotFoundError, SafetensorError):
        pass
    raise refuse(
        "out",
        "hold an undamaged checkpoint",
        f"{path}, whose bytes are not those written",
        "Delete the checkpoint folder, or pass resume=False to start over.",
    )


def _within(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
