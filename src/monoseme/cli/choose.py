"""`monoseme choose`: several featurizers on one budget, tuned alike, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

import monoseme as ms
from monoseme.api.choosing import edge
from monoseme.cli.options import Count, Store
from monoseme.cli.pictures import spliced_source
from monoseme.cli.progress import Ticker, of_fit

__all__ = ["Choose"]


@dataclass(frozen=True)
class Choose:
    """Fit scalar and block featurizers at equal width and equal active dimensions; compare on held-out samples.

    Each is tuned on the validation samples over the same learning rates. A stopped run goes on where it was.
    """

    store: Store
    """Folder or URL of a harvest."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """Folder for fits, numbers and page."""
    width: int = 4096
    """Directions in all, blocks times block size."""
    active: int = 32
    """Active dimensions a row, active blocks times block size."""
    block_size: int = 4
    """Of the block codes."""
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    """Learning rates to try."""
    steps: int = 1000
    """Optimiser steps of each fit."""
    batch_size: int = 2048
    """Rows a step."""
    aux: Annotated[Literal["dead", "runners-up"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Auxiliary loss that revives blocks."""
    splice: bool = False
    """Also put reconstructions back into the model and measure what it loses."""
    data: Annotated[str, tyro.conf.arg(metavar="DATA", help_behavior_hint="(optional)")] = ""
    """With --splice, the pictures that were harvested; text needs none."""
    size: int = 252
    """Side of these pictures in pixels."""
    spliced: Count = None
    """Samples to splice, spread evenly; all by default."""
    seed: int = 0
    """Of the first atoms and of the order of the rows."""

    def run(self) -> None:
        """Fit, and print the table."""
        store = ms.ActivationStore.open(self.store)
        model = ms.open_model(store.manifest["model"]["name"]) if self.splice else None
        source = spliced_source(store, self.data, self.size, self.seed) if self.splice else None
        with Ticker() as ticker:
            choices = ms.choose(
                store,
                self.out,
                width=self.width,
                active=self.active,
                block_size=self.block_size,
                rates=self.rates,
                seed=self.seed,
                model=model,
                source=source,
                spliced=self.spliced,
                progress=of_fit(ticker),
                steps=self.steps,
                batch_size=self.batch_size,
                aux=self.aux,
            )
        for choice in choices:
            print(f"\n{choice.name} (rate {choice.lr:g})")
            print(choice.numbers.table())
        if said := edge(choices):
            print(f"\n{said}")
        print(f"\npage  {self.out / 'pages' / 'index.html'}")
