"""`monoseme harvest`: a model's activations on pictures or text, as a store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

import monoseme as ms
from monoseme.cli.data import data_for
from monoseme.cli.options import Count, Number, Place
from monoseme.cli.pictures import thinned
from monoseme.cli.progress import Ticker, of_harvest
from monoseme.core.errors import refuse
from monoseme.store import TokenPolicy

__all__ = ["Harvest"]

SHOWN = 12  # hooks named in an error


@dataclass(frozen=True)
class Harvest:
    """Run a model over data and store its activations at one hook. A stopped harvest goes on where it was."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """Name of a model."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA", help_behavior_hint="(optional)")] = ""
    """Folder of pictures; demo:FOLDER for cut-outs on photographs; wheels for the few inside installed packages. For a
    language model, a text file or a folder of them; topics for Python's own help; brown:FOLDER for the Brown corpus."""
    at: Annotated[str | None, tyro.conf.arg(metavar="HOOK", help_behavior_hint="(needed)")] = None
    """Where in the model."""
    out: Place = None
    """Folder of the store, or a URL such as s3://bucket/store; needed."""
    list_hooks: bool = False
    """Only print the names that --at takes."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """Random weights serve as a control."""
    size: int = 252
    """Side of a picture in pixels."""
    limit: Count = None
    """Take at most so many pictures or documents, spread evenly over the data."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """How rows are stored."""
    special: bool = False
    """Keep tokens without content: CLS and registers, begin-of-document marks."""
    positions: Annotated[
        tuple[int, int] | None, tyro.conf.arg(metavar="START STOP", help_behavior_hint="(optional)")
    ] = None
    """Keep only tokens at these positions of a sample."""
    max_norm: Number = None
    """Drop rows whose norm exceeds so many medians."""
    context: int = 128
    """Tokens of a window of text."""
    padding: Literal["right", "left"] = "right"
    """Where a batch of texts is padded."""
    batch_size: int = 16
    """Samples in one forward pass."""
    seed: int = 0
    """Of the splits, of the order of training rows, of random weights, and of demo: pictures."""

    def run(self) -> None:
        """Harvest, and print what is there now."""
        model = ms.open_model(self.model, self.weights, self.seed)
        if self.list_hooks:
            print("\n".join(model.hooks()))
            return
        at, out = self._needed(model.hooks())
        data = data_for(model, self.data, self.size, self.seed)
        policy = TokenPolicy(self.special, self.positions, self.max_norm, self.context, self.padding)
        with Ticker() as ticker:
            store = ms.harvest(
                model,
                thinned(data, self.limit),
                at=at,
                out=out,
                seed=self.seed,
                dtype=self.dtype,
                batch_size=self.batch_size,
                tokens=policy,
                progress=of_harvest(ticker),
            )
        print(store)

    def _needed(self, hooks: list[str]) -> tuple[str, str]:
        """What --list-hooks does without and a harvest does not."""
        if self.at is None:
            # a numbered module, like blocks.9, is where a residual stream is read
            layers = [hook for hook in hooks if re.fullmatch(r"[^.]+\.\d+", hook)] or hooks
            shown = ", ".join(layers[:SHOWN]) + (", ..." if len(layers) > SHOWN else "")
            raise refuse("--at", "name a hook", "none", f"For example one of {shown}; --list-hooks prints all.")
        if self.out is None:
            raise refuse("--out", "name a folder for the store", "none", "For example --out stores/pictures.")
        return self.at, self.out
