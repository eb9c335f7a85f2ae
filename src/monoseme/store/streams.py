"""Rows on their way to shards: appended to one file a shard, then permuted and sealed. Sequential writing only.

A shuffle in two passes (Rao 1961; Sanders 1998): every row is dealt to a random stream, and every stream, small enough
for memory, is permuted by itself. The result is a uniform permutation of all rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.files import write_tensors

__all__ = ["Streams"]


class Streams:
    """Append-only files of rows and of their (sample, position).

    Parameters
    ----------
    folder
        Where the files lie; made if it is missing.
    names
        Names of the streams.
    d_in, dtype
        Width and type of a row.
    """

    def __init__(self, folder: Path, names: Sequence[str], d_in: int, dtype: torch.dtype) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.names, self.d_in, self.dtype = folder, list(names), d_in, dtype
        self.rows = [0] * len(self.names)
        self._row_bytes = d_in * torch.empty(0, dtype=dtype).element_size()

    def _files(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.x", self.folder / f"{name}.key"

    def append(self, stream: Int[Tensor, " n"], x: Float[Tensor, "n d"], key: Int[Tensor, "n 2"]) -> None:
        """Append rows, each to its stream, in the order given."""
        order = stream.argsort(stable=True)
        present, counts = stream[order].unique_consecutive(return_counts=True)
        start = 0
        for i, count in zip(present.tolist(), counts.tolist(), strict=True):
            index = order[start : start + count]
            rows, keys = self._files(self.names[i])
            for path, part in ((rows, x[index]), (keys, key[index])):
                with path.open("ab") as file:
                    file.write(part.contiguous().view(torch.uint8).numpy().data)
            self.rows[i] += count
            start += count

    def sync(self) -> None:
        """Force what was appended to the disk, before a journal says that it is there."""
        for name in self.names:
            for path in self._files(name):
                if path.exists():
                    with path.open("rb") as file:
                        os.fsync(file.fileno())

    def rewind(self, rows: Sequence[int]) -> None:
        """Cut every stream back to this many rows: what came after was never recorded as done."""
        for name, count in zip(self.names, rows, strict=True):
            for path, size in zip(self._files(name), (self._row_bytes, 8), strict=True):
                if path.exists():
                    os.truncate(path, count * size)
        self.rows = list(rows)

    def seal(self, name: str, path: Path, permute: torch.Generator | None) -> None:
        """Turn one stream into a safetensors file, permuted when a generator is given, and delete the stream.

        A stream that is gone was sealed before.
        """
        rows, keys = self._files(name)
        if rows.exists():
            x = torch.from_numpy(np.fromfile(rows, np.uint8)).view(self.dtype).reshape(-1, self.d_in)
            key = torch.from_numpy(np.fromfile(keys, np.int32)).reshape(-1, 2)
            if permute is not None:
                order = torch.randperm(len(x), generator=permute)
                x, key = x[order], key[order]
            write_tensors(path, {"x": x, "sample": key[:, 0], "position": key[:, 1]})
            rows.unlink()
        keys.unlink(missing_ok=True)
