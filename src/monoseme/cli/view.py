"""`monoseme view`: a local page on runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from monoseme.api.viewing import live_run
from monoseme.explorer.live import serve

__all__ = ["View"]


@dataclass(frozen=True)
class View:
    """Serve runs on 127.0.0.1: search and sort blocks, try a picture or text of your own, compare two runs.

    Nothing is written. Ctrl-C ends it.
    """

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN ...")]
    """Folders with a record and pages, as fit, audit and page leave them."""
    port: int = 8765
    """Port of the local address."""
    no_models: bool = False
    """Do not open models: starts faster, and nothing can be tried."""

    def run(self) -> None:
        """Open the runs and serve them."""
        opened = [live_run(folder, models=not self.no_models) for folder in self.runs]
        serve(opened, self.port, ready=lambda address: print(f"{address}  (Ctrl-C ends it)", flush=True))
