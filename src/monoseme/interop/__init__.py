"""Checkpoints of other libraries, read without running any code of theirs.

`READERS`: how a path starts in ``ms.load`` ("saelens:folder") → what the files are called, and who reads them.
"""

from collections.abc import Callable
from pathlib import Path

from monoseme.featurizers import Featurizer
from monoseme.interop import saelens, sparsify
from monoseme.interop.reading import CFG, Format

__all__ = ["READERS", "prefix_of"]

READERS: dict[str, tuple[Format, Callable[[Path], Featurizer]]] = {
    module.FORMAT.prefix: (module.FORMAT, module.read) for module in (saelens, sparsify)
}


def prefix_of(folder: Path) -> str | None:
    """Return the prefix under which a folder would be read, by the names of its files, if by any."""
    if not (folder / CFG).is_file():
        return None
    return next((prefix for prefix, (form, _) in READERS.items() if (folder / form.weights).is_file()), None)
