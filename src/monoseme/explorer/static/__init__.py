"""Pages that need no server."""

from monoseme.explorer.static.write import write_claims as write_claims
from monoseme.explorer.static.write import write_pages as write_pages

__all__ = ["write_claims", "write_pages"]
