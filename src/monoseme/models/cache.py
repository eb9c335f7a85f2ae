"""Tensors that take long to make and are always the same: made once for a user, checked whenever they are read."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from monoseme.core.cache import cache_folder
from monoseme.core.files import write_tensors

__all__ = ["cached_tensors"]


def cached_tensors(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors kept under `name`, or make and keep them.

    A file that is damaged or was cut short is made again. When nothing can be kept (no room, no right to
    write) there is a warning, and the tensors are returned all the same.

    Parameters
    ----------
    name
        File name without folder; put the checksum of the source into it, so that another source is another file.
    make
        Called when there is no good file.
    """
    path = cache_folder() / f"{name}.safetensors"
    kept = _read(path)
    if kept is not None:
        return kept
    tensors = make()
    try:
        # replaced in one step, never deleted first: another process may have written it meanwhile, and be reading it
        write_tensors(path, tensors, {"checksum": _checksum(tensors)})
    except (OSError, SafetensorError) as error:
        why = str(error).splitlines()[0]
        warnings.warn(f"{path} was not kept ({why}); set MONOSEME_CACHE to a folder with room.", stacklevel=2)
    return tensors


def _read(path: Path) -> dict[str, Tensor] | None:
    """Tensors of a file if it is whole and as it was written."""
    try:
        with safe_open(path, framework="pt") as file:  # refuses a file whose length is not what its header says
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            written = (file.metadata() or {}).get("checksum")
    except (OSError, SafetensorError):
        return None
    return tensors if written == _checksum(tensors) else None


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 over names, types, shapes and bytes: it finds damage, which is all that is asked of it here."""
    total = 0
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"
