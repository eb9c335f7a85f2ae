"""`monoseme page`: the pages of a run."""

from __future__ import annotations

from dataclasses import dataclass

import monoseme as ms
from monoseme.cli.options import Folder, Place, Run

__all__ = ["Page"]


@dataclass(frozen=True)
class Page:
    """Make the pages of a run and print the path of the first one."""

    fitted: Run
    """Folder of a fit."""
    store: Place = None
    """Store with the held-out samples; the run's own by default."""
    out: Folder = None
    """Folder for record and pages; the run's own by default."""
    title: str = ""
    """Heading of the page."""

    def run(self) -> None:
        """Write the pages."""
        store = None if self.store is None else ms.ActivationStore.open(self.store)
        print(ms.page(self.fitted, store, out=self.out, title=self.title))
