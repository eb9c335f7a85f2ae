"""`monoseme fit`: a featurizer of the zoo, trained on a store."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import monoseme as ms
from monoseme.cli.options import Count, Number, Store
from monoseme.cli.progress import Ticker, of_fit, seconds
from monoseme.core.errors import closest, refuse
from monoseme.featurizers import ZOO, build
from monoseme.featurizers.units import Norm

__all__ = ["Fit"]

# options that go to the featurizer's constructor, when they are given
SHAPE = ("n_blocks", "block_size", "k", "sign", "norm", "constraint", "retract_every", "retraction", "learn_bias")


@dataclass(frozen=True)
class Fit:
    """Train a featurizer on the training rows of a store. A stopped fit goes on where it was, bit for bit."""

    store: Store
    """Folder of a harvest."""
    featurizer: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FEATURIZER")]
    """ReLU, TopK, BlockTopK or Grassmannian."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    n_blocks: Count = None
    """G, how many blocks (needed)."""
    block_size: Count = None
    """b, directions a block (BlockTopK, Grassmannian)."""
    k: Count = None
    """Active blocks a row (all but ReLU)."""
    sign: Annotated[Literal["nonneg", "free"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """The cone of the codes (TopK, BlockTopK)."""
    norm: Annotated[Norm | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Scale of the training units."""
    constraint: Annotated[Literal["ball", "sphere"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Of the atoms (BlockTopK)."""
    retract_every: Count = None
    """Steps between two retractions of the frames (Grassmannian)."""
    retraction: Annotated[Literal["polar", "cholesky"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """How frames are made orthonormal again (Grassmannian)."""
    learn_bias: Annotated[bool | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Whether the output bias is trained (ReLU, TopK)."""
    steps: int = 2000
    """Optimiser steps."""
    batch_size: int = 2048
    """Rows a step."""
    lr: float = 1e-3
    """Peak learning rate."""
    aux: Annotated[Literal["dead", "runners-up"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Auxiliary loss that revives blocks."""
    lam: float = 0.0
    """Weight of the norm penalty (ReLU needs one)."""
    optimiser: Literal["adam", "muon"] = "adam"
    """Adam, or Muon for the two-dimensional parameters."""
    clip: Number = None
    """Largest norm of the gradient."""
    seed: int = 0
    """Of the first atoms and of the order of the rows."""
    log_every: int = 50
    """Steps between two logged lines."""
    checkpoint_every: int = 500
    """Steps between two checkpoints."""
    restart: bool = False
    """Start over, and replace what RUN holds."""

    def run(self) -> None:
        """Fit, and print where everything is."""
        shape = {name: value for name in SHAPE if (value := getattr(self, name)) is not None}
        check_options(self.featurizer, shape)
        store = ms.ActivationStore.open(self.store)
        featurizer = build(self.featurizer, {"d_in": store.d_in, **shape, "seed": self.seed})
        with Ticker() as ticker:
            result = ms.fit(featurizer, store, out=self.out, progress=of_fit(ticker), **self._training())
        history = result.history
        print(f"{featurizer.recipe['name']}: {history.steps:,} steps in {seconds(history.seconds)}, ", end="")
        print(f"{history.epochs:.2f} times the {history.available:,} training rows")
        print(f"run   {self.out} (featurizer/, log.jsonl, checkpoint/)")
        print(f"next  monoseme evaluate {self.out}; monoseme page {self.out}")

    def _training(self) -> dict[str, Any]:
        names = ("steps", "batch_size", "lr", "aux", "lam", "optimiser", "clip", "seed", "log_every")
        same = {name: getattr(self, name) for name in (*names, "checkpoint_every")}
        return {**same, "resume": not self.restart}


def check_options(name: str, given: dict[str, Any]) -> None:
    """Refuse what the constructor of that name does not take, and name what it needs."""
    if name not in ZOO:
        raise refuse("FEATURIZER", "be in the zoo", repr(name), closest(name, ZOO))
    takes = inspect.signature(ZOO[name]).parameters
    mine = [option for option in SHAPE if option in takes]
    for option in given:
        if option not in takes:
            known = ", ".join(map(_flag, mine))
            raise refuse(_flag(option), f"be left out for {name}", given[option], f"It takes {known}.")
    for option in mine:
        if takes[option].default is inspect.Parameter.empty and option not in given:
            raise refuse(_flag(option), f"be given for {name}", "nothing", "It has no default.")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
