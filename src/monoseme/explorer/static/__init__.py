"""Pages that need no server."""

from monoseme.explorer.static.write import check_pages as check_pages
from monoseme.explorer.static.write import write_certificates as write_certificates
from monoseme.explorer.static.write import write_claims as write_claims
from monoseme.explorer.static.write import write_network as write_network
from monoseme.explorer.static.write import write_pages as write_pages

__all__ = ["check_pages", "write_certificates", "write_claims", "write_network", "write_pages"]
