"""Where things that can be made or fetched again are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """``$MONOSEME_CACHE``, else ``$XDG_CACHE_HOME/monoseme``, else ``~/.cache/monoseme``; made by whoever writes."""
    own, shared = os.environ.get("MONOSEME_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own).expanduser().absolute()
    return (Path(shared).expanduser().absolute() if shared else Path.home() / ".cache") / "monoseme"
