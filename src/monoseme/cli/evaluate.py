"""`monoseme evaluate`: the numbers of a run on held-out samples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

import monoseme as ms
from monoseme.api import store_of
from monoseme.cli.options import Count, Place, Run
from monoseme.cli.pictures import spliced_source

__all__ = ["Evaluate"]


@dataclass(frozen=True)
class Evaluate:
    """Measure a fitted featurizer on samples it was not fitted on."""

    fitted: Run
    """Folder of a fit."""
    store: Place = None
    """Store with the samples; the run's own by default."""
    split: Literal["test", "validation", "train"] = "test"
    """Which samples."""
    refine: Annotated[Literal["ls", "omp"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Improve the codes at inference: least squares on the same blocks, or block pursuit."""
    json: bool = False
    """Print JSON, with the density of every block, instead of a table."""
    splice: bool = False
    """Also put reconstructions back into the model and measure what it loses."""
    data: Annotated[str, tyro.conf.arg(metavar="DATA", help_behavior_hint="(optional)")] = ""
    """With --splice, the pictures that were harvested; text needs none."""
    size: int = 252
    """Side of these pictures in pixels."""
    spliced: Count = None
    """Samples to splice, spread evenly; all by default."""
    seed: int = 0
    """Of the resampling behind the intervals."""

    def run(self) -> None:
        """Print the table."""
        featurizer = ms.load(self.fitted)
        store = store_of(self.fitted) if self.store is None else ms.ActivationStore.open(self.store)
        numbers = ms.evaluate(
            featurizer,
            store,
            self.split,
            model=store.manifest["model"]["name"] if self.splice else None,
            source=spliced_source(store, self.data, self.size, self.seed) if self.splice else None,
            spliced=self.spliced,
            refine=self.refine,
            seed=self.seed,
        )
        print(json.dumps(numbers.to_json(), indent=1, allow_nan=False) if self.json else numbers.table())
