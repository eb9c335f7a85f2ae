"""`monoseme fit`: a featurizer of the zoo, trained on a store."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
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

# arguments of the featurizer's constructor that have an option of their own; --set takes the others
SHAPE = ("n_blocks", "block_size", "k", "target_l0", "sign", "norm")


@dataclass(frozen=True)
class Fit:
    """Train a featurizer on the training rows of a store. A stopped fit goes on where it was, bit for bit."""

    store: Store
    """Folder of a harvest."""
    featurizer: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FEATURIZER")]
    """ReLU, TopK, BatchTopK, JumpReLU, BlockTopK, Grassmannian, GroupLasso, FalseDiscovery or Tournament."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    n_blocks: Count = None
    """G, how many blocks (needed)."""
    block_size: Count = None
    """b, directions a block."""
    k: Count = None
    """Active blocks a row."""
    target_l0: Number = None
    """Active blocks a row that a GroupLasso aims at."""
    sign: Annotated[Literal["nonneg", "free"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """The cone of the codes."""
    norm: Annotated[Norm | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Scale of the training units."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="(optional)")] = ()
    """Any other argument of the constructor: gate=threshold, constraint=sphere, learn_bias=false, alpha=0.05."""
    steps: int = 2000
    """Optimiser steps."""
    batch_size: int = 2048
    """Rows a step."""
    lr: float = 1e-3
    """Peak learning rate."""
    aux: Annotated[Literal["dead", "runners-up"] | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Auxiliary loss that revives blocks."""
    lam: Number = None
    """Weight of the penalty (ReLU and JumpReLU need one)."""
    optimiser: Literal["adam", "muon"] = "adam"
    """Adam, or Muon for the two-dimensional parameters."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the dense products."""
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
        given = {name: value for name in SHAPE if (value := getattr(self, name)) is not None}
        shape = {**given, **settings(self.set)}
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
        names = ("steps", "batch_size", "lr", "aux", "lam", "optimiser", "precision", "clip", "seed", "log_every")
        same = {name: getattr(self, name) for name in (*names, "checkpoint_every")}
        return {**same, "resume": not self.restart}


def settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is true, false, a number, or else a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise refuse("--set", "have the form NAME=VALUE", repr(pair), "For example --set gate=threshold.")
        found[name.replace("-", "_")] = _value(text)
    return found


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_options(name: str, given: dict[str, Any]) -> None:
    """Refuse what the constructor of that name does not take, and name what it needs."""
    if name not in ZOO:
        raise refuse("FEATURIZER", "be in the zoo", repr(name), closest(name, ZOO))
    takes = inspect.signature(ZOO[name]).parameters
    mine = [option for option in takes if option not in ("d_in", "seed")]
    for option in given:
        if option not in mine:
            raise refuse(_flag(option), f"be left out for {name}", given[option], _instead(option, mine))
    for option in mine:
        if takes[option].default is inspect.Parameter.empty and option not in given:
            raise refuse(_flag(option), f"be given for {name}", "nothing", "It has no default.")


def _instead(option: str, mine: Sequence[str]) -> str:
    """What to type in place of an option that the constructor does not take."""
    if option == "seed":
        return "Use --seed."
    near, known = closest(option, mine, n=1), f"It takes {', '.join(map(_flag, mine))}."
    return f"{near} {known}" if near.startswith("Did you mean") else known


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-") if option in SHAPE else f"--set {option}="
