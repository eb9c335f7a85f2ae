"""`monoseme composition ...`: pattern-producing networks as pictures, and how they bear a moved weight."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from monoseme.api.composing import network_page
from monoseme.cli.composition_training import Depth, Fit, Prune
from monoseme.cli.options import Count, Folder
from monoseme.composition import SCENES, Delta, Genome, ImageNetwork, emc2, layerize, load_genome, scene
from monoseme.composition.judges import EndpointJudge, EndpointSettings, FeatureJudge, Judge
from monoseme.composition.network_file import load_network
from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path

__all__ = ["Composition", "Emc2Verb", "Render"]

Source = Annotated[str, tyro.conf.arg(metavar="|".join(("FILE", *SCENES)))]
KEY = "MONOSEME_JUDGE_KEY"


@dataclass(frozen=True)
class Render:
    """Draw a genome's picture."""

    genome: tyro.conf.Positional[Source]
    """A genome (zip or XML of Picbreeder, XML of CPPN-X), a network that fit wrote, or one of our own scenes."""
    out: Path
    """PNG file to write."""
    size: int = 256
    """Side in pixels."""
    page: Folder = None
    """Folder for a page on which every neuron's map is seen and any weight can be moved."""

    def run(self) -> None:
        """Draw, and say what it is made of."""
        from PIL import Image

        from monoseme.composition.judges.protocol import eight_bit

        found = _source(self.genome)
        net = layerize(found) if isinstance(found, Genome) else found
        picture = Image.fromarray(eight_bit(found.render(self.size).float()))
        with atomic_path(self.out) as fresh:
            picture.save(fresh, "PNG")
        if isinstance(found, Genome):
            print(f"{len(found.nodes)} nodes, {sum(link.weight != 0 for link in found.links)} links")
        print(f"{len(net.banks)} layers of {len(net.banks[0].names)} neurons, {len(net.entries())} weights")
        print(f"picture  {self.out}")
        if self.page is not None:
            print(f"page     {network_page(found, self.page, title=self.genome)}")


@dataclass(frozen=True)
class Emc2Verb:
    """Move every weight of a genome or a network, one at a time, and have the pictures judged."""

    genome: tyro.conf.Positional[Source]
    """A genome, a network that fit wrote, or one of our own scenes."""
    thing: str = ""
    """What the picture shows, with its article; needed with --url."""
    url: str = ""
    """OpenAI-compatible endpoint of a vision-language model, such as http://127.0.0.1:8000/v1; its key is read from
    MONOSEME_JUDGE_KEY. By default deep features judge: a stand-in."""
    model: str = EndpointSettings().model
    """Name of the model at the endpoint."""
    delta: float = 0.5
    """How far weights are moved."""
    kind: str = "absolute"
    """absolute; relative to each weight; or visible: as far as changes the picture by --delta (0…1)."""
    matrix: bool = False
    """Move all entries of the layerised network, copies too, instead of the genome's links."""
    sample: Count = None
    """At most so many weights."""
    size: int = 128
    """Side of the pictures."""
    seed: int = 0
    """Of signs, sample and calibration."""
    out: Folder = None
    """Folder in which verdicts are kept; a stopped run goes on there."""
    page: Folder = None
    """Folder for a page of the network with the score over its weights."""

    def run(self) -> None:
        """Score, and print the numbers that belong together."""
        found = _source(self.genome)
        judge = self._judge(found)
        if isinstance(judge, FeatureJudge):
            print(f"judge: deep features, a stand-in; calibration error {judge.calibration}")
        over = "matrix" if self.matrix or isinstance(found, ImageNetwork) else "links"
        step = Delta(self.kind, self.delta)
        score = emc2(found, judge, step, over=over, sample=self.sample, size=self.size, seed=self.seed, out=self.out)
        print(score.table())
        if self.page is not None:
            told = {"judge": str(judge.about.get("judge", "")), "step": f"{self.kind} {self.delta:g}"}
            print(f"page  {network_page(found, self.page, score, self.genome, **told)}")

    def _judge(self, found: Genome | ImageNetwork) -> Judge:
        if not self.url:
            picture = found.render(self.size).float()
            others = [scene(name).render(self.size).float() for name in SCENES if name != self.genome]
            return FeatureJudge(picture, others, seed=self.seed)
        if not self.thing:
            raise refuse("--thing", "say what the picture shows", "nothing", 'For example --thing "a skull".')
        return EndpointJudge(self.thing, self.url, os.environ.get(KEY, ""), EndpointSettings(model=self.model))


@dataclass(frozen=True)
class Composition:
    """Networks whose parts have names: pictures of genomes, how they bear a moved weight, training and pruning."""

    verb: (
        Annotated[Render, tyro.conf.subcommand("render", prefix_name=False)]
        | Annotated[Emc2Verb, tyro.conf.subcommand("emc2", prefix_name=False)]
        | Annotated[Fit, tyro.conf.subcommand("fit", prefix_name=False)]
        | Annotated[Prune, tyro.conf.subcommand("prune", prefix_name=False)]
        | Annotated[Depth, tyro.conf.subcommand("depth", prefix_name=False)]
    )
    """What to do."""

    def run(self) -> None:
        """Do it."""
        self.verb.run()


def _source(name: str) -> Genome | ImageNetwork:
    if name.endswith(".safetensors"):
        return load_network(name)
    return scene(name) if name in SCENES else load_genome(name)
