"""Pages that need no server."""

from monoseme.explorer.static.write import write_pages as write_pages

__all__ = ["write_pages"]
