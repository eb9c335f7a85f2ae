"""State dicts from a user's file: read without running anything, renamed, and compared key by key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["read_state", "translate"]

NOT_NEEDED = "num_batches_tracked"  # of a batch norm that does not learn


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Tensors of a ``.safetensors`` file, or of a torch file that holds tensors in plain containers and no more.

    Raises
    ------
    UserError
        No such file; a damaged one; a pickle that would run something; something other than names and tensors.
    """
    path = Path(path)
    if not path.is_file():
        raise refuse("model", "name a file of weights", f"{str(path)!r}, which is none", "Check the path.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        # with weights_only torch builds tensors and plain containers and refuses all else: nothing in the file can run
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of any type: what it reads may be anything
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)[:160]
        rule = "be a file of tensors alone, safetensors or a state dict"
        raise refuse("model", rule, f"{path.name!r} ({why})", "Save the state dict as safetensors.") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items()):
        raise refuse(
            "model", "hold names and tensors", f"{path.name!r}, which holds more", "Save the state dict alone."
        )
    return found


def translate(
    theirs: Mapping[str, Tensor],
    ours: Mapping[str, Tensor],
    names: Mapping[str, str],
    extra: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """A file's tensors under our keys.

    Parameters
    ----------
    theirs
        The file's.
    ours
        What is needed: keys and shapes.
    names
        Our layers' names → the file's, both without the last part (``.weight``).
    extra
        Prefixes of keys of the file that are left out without a word.

    Raises
    ------
    UserError
        Keys that are missing or too many, tensors of other shapes: the first one, and how many there are.
    """
    wanted = {}
    for key in ours:
        layer, _, kind = key.rpartition(".")
        wanted[key] = f"{names[layer]}.{kind}"
    needed = [name for key, name in wanted.items() if not key.endswith(NOT_NEEDED)]
    _none([name for name in needed if name not in theirs], "have all its weights", "without")
    known = set(wanted.values())
    over = [name for name in theirs if name not in known and not name.startswith(extra)]
    _none(over, "have no weights of another model", "with")
    wrong = [
        f"{name} of {tuple(theirs[name].shape)} where {tuple(ours[key].shape)} is needed"
        for key, name in wanted.items()
        if name in theirs and theirs[name].shape != ours[key].shape
    ]
    _none(wrong, "have weights of its shapes", "with")
    # only counts of batches may still be lacking
    return {key: theirs.get(name, torch.zeros((), dtype=ours[key].dtype)) for key, name in wanted.items()}


def _none(found: list[str], rule: str, how: str) -> None:
    if found:
        rest = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise refuse("model", rule, f"a file {how} {found[0]}{rest}", "Is it the state dict of this very network?")
