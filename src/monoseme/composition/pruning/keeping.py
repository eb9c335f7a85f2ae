"""Rounds of pruning kept in a folder: a killed run goes on after its last whole round, with the same result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from monoseme.composition.pruning.layers import Layer
from monoseme.core.files import read_json, write_json
from monoseme.core.parse import Entry
from monoseme.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

__all__ = ["Kept", "Round", "fingerprint"]


@dataclass(frozen=True)
class Round:
    """One round: the sparsity after it; victims (layer, neuron, and the number that chose them); losses, where asked.

    `before` is the loss right after masking, `after` that after training again.
    """

    sparsity: float
    victims: tuple[tuple[str, int, float], ...]
    before: float | None
    after: float | None


def fingerprint(module: nn.Module) -> str:
    """Hash of a module's state: a kept run belongs to one starting point."""
    found = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        found.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class Kept:
    """``rounds.json`` and ``checkpoint/`` in a folder.

    Parameters
    ----------
    folder
        Of this run alone; another run's is refused.
    run
        Plain JSON values that decide the result.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any]) -> None:
        self.folder, self.run = folder, {"run": "prune", **run}

    def load(self, module: nn.Module, layers: Sequence[Layer]) -> list[Round]:
        """Put module and masks into the state after the last whole round, and return the rounds."""
        found = load_checkpoint(self.folder / "checkpoint", self.run)
        if found is None:
            return []
        module.load_state_dict(dict(found.objects["module"]))
        for i, layer in enumerate(layers):
            layer.mask.copy_(found.objects["masks"][str(i)])
        path = self.folder / "rounds.json"
        # written before the checkpoint: a round more than there are checkpoints of does not count
        rounds = Entry(read_json(path), str(path)).items("rounds")[: found.step]
        return [_round(entry) for entry in rounds]

    def save(self, module: nn.Module, layers: Sequence[Layer], rounds: Sequence[Round]) -> None:
        """Keep the state after a round."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "rounds.json", {"rounds": [asdict(one) for one in rounds]})
        states = {
            "module": {name: tensor.detach() for name, tensor in module.state_dict().items()},
            "masks": {str(i): layer.mask for i, layer in enumerate(layers)},
        }
        none = {name: {} for name in states}
        made = Checkpoint(self.run, len(rounds), finished=False, seconds=0.0, objects=states, optimisers=none)
        save_checkpoint(self.folder / "checkpoint", made)


def _round(entry: Entry) -> Round:
    plain = entry.mapping()
    victims = tuple((str(name), int(neuron), float(value)) for name, neuron, value in plain["victims"])
    losses = (None if plain[key] is None else float(plain[key]) for key in ("before", "after"))
    return Round(float(plain["sparsity"]), victims, *losses)
