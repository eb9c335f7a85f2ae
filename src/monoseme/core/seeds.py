"""Random numbers from named streams. Nothing here reads or moves a global generator.

A stream is named by a seed and a path of words, so that adding a draw in one place never shifts the draws of another:
``generator(0, "shuffle", epoch)`` gives the same numbers whatever else the program did.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch

__all__ = ["derive", "generator", "rng"]


def derive(seed: int, *path: str | int) -> int:
    """Hash a seed and a path to a 63-bit seed.

    Examples
    --------
    >>> derive(0, "shuffle", 1) == derive(0, "shuffle", 1) != derive(0, "shuffle", 2)
    True
    """
    text = "/".join([str(int(seed)), *(str(part) for part in path)])
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "little") >> 1


def generator(seed: int, *path: str | int) -> torch.Generator:
    """Return a torch generator for the stream named by `seed` and `path`; on CPU, so that no device changes a draw."""
    return torch.Generator().manual_seed(derive(seed, *path))


def rng(seed: int, *path: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream named by `seed` and `path`."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))
