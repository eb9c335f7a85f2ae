"""Open a featurizer that was fitted here, or another library's checkpoint."""

from __future__ import annotations

from pathlib import Path

from monoseme.core.errors import closest, refuse
from monoseme.featurizers import Featurizer
from monoseme.featurizers import load as load_ours
from monoseme.interop import READERS, prefix_of

__all__ = ["load"]


def load(path: str | Path) -> Featurizer:
    """Read a featurizer from its folder, or from a run that holds one; ``"saelens:FOLDER"`` reads another library's.

    Parameters
    ----------
    path
        A folder; or text that starts with a library's name: ``"saelens:FOLDER"`` (`interop.saelens`),
        ``"sparsify:FOLDER"`` (`interop.sparsify`). Only safetensors and JSON are read.

    Returns
    -------
    Featurizer
        With unit atoms, in raw activation units. Another library's activations times the norms of its decoder rows are
        the codes here; the reconstruction is the same.

    Raises
    ------
    UserError
        If the folder holds no such featurizer, a damaged file, or one that cannot be read exactly.
    """
    prefix, colon, rest = str(path).partition(":")
    if colon and prefix in READERS:
        return READERS[prefix][1](Path(rest))
    # one letter is a drive of Windows
    if colon and prefix.isalpha() and len(prefix) > 1 and not Path(path).exists():
        fix = closest(prefix, READERS)
        raise refuse("path", "start with the name of a library that is read here", repr(f"{prefix}:"), fix)
    if (found := prefix_of(Path(path))) is not None:
        raise refuse("path", f"name the library of a {found} checkpoint", path, f"Write {found}:{path}")
    return load_ours(path)
