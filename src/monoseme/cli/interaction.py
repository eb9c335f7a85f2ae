"""`monoseme interaction ...`: gradients between the places of a model, and shapes under a parameter budget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

import monoseme as ms
from monoseme.api.interacting import agop_page, model_inputs
from monoseme.cli.data import data_for
from monoseme.cli.options import Count, Folder
from monoseme.core.errors import refuse
from monoseme.explorer.static import check_pages
from monoseme.interaction import How, agop, shapes
from monoseme.interaction.shapes import DEPTHS
from monoseme.models.families import FAMILIES

__all__ = ["AgopVerb", "Interaction", "ShapesVerb", "parameters"]

UNITS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}
ENERGIES = ("aofe_ratio", "rotation_baseline", "excess", "participation_ratio", "aofe")


@dataclass(frozen=True)
class AgopVerb:
    """Average gradient outer products of a model at places in it: energies, spectra, and a page."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """Name of a model."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Pictures or text, as for `monoseme harvest`."""
    at: tuple[str, ...] = ()
    """Places: blocks.3 is that module's input, blocks.3:out its output. Several are done in one pass."""
    side: Literal["input", "output"] = "input"
    """Coordinates of the place, or outputs."""
    of: Literal["auto", "logits", "last", "mean", "outputs"] = "auto"
    """What is differentiated. auto: the last token's logits of a language model, else the mean over positions."""
    probes: Count = 8
    """Random combinations a sample. --exact takes all outputs."""
    exact: bool = False
    """Differentiate every output."""
    samples: int = 64
    """Pictures, or windows of text."""
    context: int = 64
    """Tokens of a window."""
    size: int = 252
    """Side of a picture in pixels."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """Random weights serve as a control."""
    seed: int = 0
    """Of the probes."""
    out: Folder = None
    """Folder for record and page."""

    def run(self) -> None:
        """Compute, print, and write the page."""
        if not self.at:
            raise refuse("--at", "name at least one place", "none", "`monoseme harvest MODEL --list-hooks` tells them.")
        if self.out is not None:
            check_pages(self.out / "pages")
        model = ms.open_model(self.model, self.weights, self.seed)
        inputs = model_inputs(model, data_for(model, self.data, self.size, self.seed), self.samples, self.context)
        of = ("last" if model.facts.tokenizer is not None else "mean") if self.of == "auto" else self.of
        probes = None if self.exact else self.probes
        found = agop(model, inputs, [*self.at], side=self.side, of=of, probes=probes, how=How(seed=self.seed))
        for name, one in found.items():
            print(f"{name}: width {one.about.width:,}, {one.about.n} samples, {one.about.method}")
            for energy in ENERGIES:
                print(f"  {energy:<20} {one.energy(energy, population=True)}")
        if self.out is not None:
            print(f"\npage  {agop_page(found, self.out, model=self.model, weights=self.weights, data=self.data)}")


@dataclass(frozen=True)
class ShapesVerb:
    """Depths and widths of a family that a parameter budget allows, with true counts. Nothing is trained."""

    family: Annotated[str, tyro.conf.arg(metavar="|".join(FAMILIES))] = "gpt"
    """Which family of networks."""
    budget: str = "1M"
    """Parameters: 60000, 60k, 1.3M."""
    depths: tuple[int, ...] = DEPTHS
    """Which depths."""
    without_embeddings: bool = False
    """Count only what neither reads the input nor writes the output."""
    tolerance: float = 0.2
    """Largest share of the budget that a shape may leave."""

    def run(self) -> None:
        """Print the table."""
        rows = shapes(
            self.family,
            parameters(self.budget),
            depths=self.depths,
            embeddings=not self.without_embeddings,
            tolerance=self.tolerance,
        )
        print(f"{'depth':>5} {'width':>6} {'parameters':>12} {'unused':>7} {'R':>8} {'MFLOP':>9} {'train MB':>9}")
        for row in rows:
            print(
                f"{row.depth:>5} {row.width:>6} {row.parameters:>12,} {row.unused:>7.1%} {row.ratio:>8.4f} "
                f"{row.flops / 1e6:>9.1f} {row.memory / 1e6:>9.1f}"
            )
        print("R = depth / width; MFLOP of a forward pass of one sample; memory at a batch of one, float32, Adam")


@dataclass(frozen=True)
class Interaction:
    """How the parts of a network share a budget: average gradient outer products, and shapes."""

    verb: (
        Annotated[AgopVerb, tyro.conf.subcommand("agop", prefix_name=False)]
        | Annotated[ShapesVerb, tyro.conf.subcommand("shapes", prefix_name=False)]
    )
    """What to do."""

    def run(self) -> None:
        """Do it."""
        self.verb.run()


def parameters(text: str) -> float:
    """Parameters from a number with k, M or B behind it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmb]?)", text.strip().lower().replace(",", "").replace("_", ""))
    if not found or float(found[1]) <= 0:
        raise refuse("--budget", "be a number of parameters", repr(text), "For example 60000, 60k or 1.3M.")
    return float(found[1]) * UNITS[found[2]]
