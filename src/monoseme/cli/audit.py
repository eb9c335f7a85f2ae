"""`monoseme audit`: a model and data go in, one page comes out. Every step can be stopped and goes on."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import tyro

import monoseme as ms
from monoseme.api import Watch
from monoseme.api.defaults import default_tokens
from monoseme.cli.data import data_for
from monoseme.cli.options import Count, Folder, Number
from monoseme.cli.pictures import thinned
from monoseme.cli.progress import Ticker, of_fit, of_harvest, seconds
from monoseme.models import HookedModel
from monoseme.store import TokenPolicy

__all__ = ["Audit"]


@dataclass(frozen=True)
class Audit:
    """Take a model apart and measure what came out: harvest, two fits, evaluation, splice, stability, one page."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """Name of a model."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """As for `monoseme harvest`: a folder of pictures, demo:FOLDER or wheels; for a language model a text file, a
    folder of them, topics or brown:FOLDER."""
    out: Folder = None
    """Folder for everything that is made; runs/audit-MODEL-DATA by default. What is there is not done again."""
    at: Annotated[str | None, tyro.conf.arg(metavar="HOOK", help_behavior_hint="(optional)")] = None
    """Where in the model; by default the numbered layer after which two thirds of them are done."""
    featurizer: str = "Grassmannian"
    """A name in the zoo."""
    n_blocks: Count = None
    """G; by default 4 d/b, or what lets a block fire on 200 training rows if that is less."""
    block_size: Count = None
    """b; 3 by default, 1 for scalar featurizers."""
    k: Count = None
    """Active blocks a row (or the target L0); by default d/16 active dimensions."""
    lam: Number = None
    """Weight of the norm penalty, for featurizers that need one."""
    steps: Count = None
    """Optimiser steps; by default ten passes over the training rows, between 400 and 1,000 steps."""
    batch_size: int = 2048
    """Rows a step, at most."""
    lr: float = 3e-3
    """Peak learning rate."""
    spliced: int = 32
    """Held-out samples to run again with reconstructions put back; 0 leaves that out."""
    gradients: int = 16
    """Samples on which gradients are taken, for what the network downstream does with every part; 0 leaves that out."""
    control: bool = False
    """Do the same with random weights and show both. Costs as much again."""
    size: int = 252
    """Side of a picture in pixels."""
    limit: Count = None
    """Take at most so many pictures or documents, spread evenly over the data."""
    context: int = 128
    """Tokens of a window of text."""
    max_norm: Number = None
    """Drop rows whose norm exceeds so many medians; 10 by default for a language model, no limit for pictures."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """How rows are stored."""
    title: str = ""
    """Heading of the page."""
    seed: int = 0
    """Of the splits, the order of rows and the first fit; the second fit and random weights follow from it."""

    def run(self) -> None:
        """Do all steps that were not done yet, and print the numbers and the page."""
        started = time.perf_counter()
        model = ms.open_model(self.model)
        data = thinned(data_for(model, self.data, self.size, self.seed), self.limit)
        names = ("at", "featurizer", "n_blocks", "block_size", "k", "lam", "steps", "batch_size", "lr", "spliced",
                 "gradients")  # fmt: skip
        with Ticker() as ticker:

            def say(text: str) -> None:
                ticker.end()
                print(f"[{time.perf_counter() - started:5.0f} s] {text}", flush=True)

            result = ms.audit(
                model,
                data,
                self.out or f"runs/audit-{_slug(self.model)}-{_slug(self.data)}",
                control=self.control and ms.open_model(self.model, "random", self.seed),
                title=self.title,
                watch=Watch(say, of_harvest(ticker, "  "), of_fit(ticker, "  ")),
                **{name: getattr(self, name) for name in (*names, "dtype", "seed")},
                tokens=self._tokens(model),
            )
        print(result.evaluation.table())
        for name, numbers in result.controls.items():
            print(f"\n{name}\n{numbers.table()}")
        print(f"\n{seconds(time.perf_counter() - started)}; page  {result.page}")

    def _tokens(self, model: HookedModel) -> TokenPolicy:
        policy = default_tokens(model, self.context)
        return policy if self.max_norm is None else replace(policy, max_norm=self.max_norm)


def _slug(text: str) -> str:
    """Part of a folder's name.

    Examples
    --------
    >>> _slug("hf:gpt2"), _slug("data/photos/")
    ('hf-gpt2', 'photos')
    """
    return re.sub(r"[^\w.-]+", "-", text.rstrip("/").rpartition("/")[2]).strip("-.") or "here"
