"""`monoseme composition fit|prune|depth`: networks that paint a picture, made smaller, and how deep to make them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from jaxtyping import Float
from torch import Tensor

from monoseme.cli.options import Folder
from monoseme.composition import SCENES, ImageNetwork, fit_depth, fit_image, layerize, predict_depth, prune, scene
from monoseme.composition.network_file import load_network, save_network
from monoseme.composition.painting import picture_error, picture_loss
from monoseme.composition.png import png_ratio
from monoseme.core.errors import refuse

__all__ = ["Depth", "Fit", "Prune", "read_picture"]

Picture = Annotated[str, tyro.conf.arg(metavar="|".join(("PICTURE", *SCENES)))]


@dataclass(frozen=True)
class Fit:
    """Train a dense coordinate network on a picture."""

    picture: tyro.conf.Positional[Picture]
    """An image file, cut square, or one of our own scenes."""
    out: Path
    """File for the network (safetensors)."""
    width: int = 16
    """Neurons a layer."""
    depth: int = 6
    """Hidden layers."""
    activations: str = "gaussian,sin,sigmoid,identity"
    """Names, given to the neurons of every layer in turn; one name for all of them, such as relu."""
    optimiser: str = "muon"
    """adam or muon."""
    lr: float = 0.03
    """Learning rate; 0.003 suits adam."""
    steps: int = 1000
    """Of all pixels each."""
    size: int = 64
    """Side in pixels of the picture that is trained on."""
    seed: int = 0
    """Of the first weights."""
    work: Folder = None
    """Folder for checkpoints; a stopped fit goes on there."""

    def run(self) -> None:
        """Train, write, and say how well it paints."""
        names = [name.strip() for name in self.activations.split(",")]
        bank = [names[i % len(names)] for i in range(max(self.width, 0))]
        network = ImageNetwork.dense(self.width, self.depth, bank, seed=self.seed)
        target = read_picture(self.picture, self.size)
        options = {"steps": self.steps, "lr": self.lr, "optimiser": self.optimiser}
        fitted = fit_image(network, target, out=self.work, **options)  # pyright: ignore[reportArgumentType]
        save_network(network, self.out)
        print(f"mean squared error {fitted.loss:.3g} of variance {float(target.var()):.3g}")
        print(f"network  {self.out}")


@dataclass(frozen=True)
class Prune:
    """Prune a network in rounds, training again after each, and write what is left."""

    network: tyro.conf.Positional[Path]
    """A network that fit wrote."""
    out: Path
    """File for the pruned network (safetensors)."""
    method: str = "similarity"
    """similarity, taylor, fpgm, random-neurons; magnitude, magnitude-by-layer, wanda, random."""
    to: float = 0.5
    """Share of the weights taken away at the end."""
    rounds: int = 5
    """Rounds, each followed by training."""
    max_loss: float | None = None
    """Stop after the round that leaves the mean squared error above this."""
    picture: str | None = None
    """What it is trained on again; by default its own picture before pruning."""
    steps: int = 500
    """Of training after every round; 0 for none."""
    lr: float = 0.03
    """Learning rate, of muon."""
    size: int = 64
    """Side in pixels."""
    seed: int = 0
    """Of random choices."""
    work: Folder = None
    """Folder in which rounds are kept; a stopped run goes on there."""

    def run(self) -> None:
        """Prune, write, and print a line a round."""
        network = load_network(self.network)
        target = network.render(self.size) if self.picture is None else read_picture(self.picture, self.size)

        def retrain(module: ImageNetwork) -> None:
            fit_image(module, target, steps=self.steps, lr=self.lr, optimiser="muon")

        found = prune(
            network,
            self.size,
            self.method,
            to=self.to,
            rounds=self.rounds,
            retrain=retrain if self.steps else None,
            loss=lambda module: picture_loss(module, target),  # pyright: ignore[reportArgumentType]
            bound=self.max_loss,
            objective=(lambda module: picture_error(module, target)) if self.method == "taylor" else None,
            seed=self.seed,
            out=self.work,
        )
        for number, one in enumerate(found.rounds, 1):
            print(
                f"round {number}: {one.sparsity:.1%} of weights gone, error {one.before:.3g}, trained {one.after:.3g}"
            )
        save_network(network, self.out)
        print(f"network  {self.out}")


@dataclass(frozen=True)
class Depth:
    """Predict how many layers a picture needs, from how far it compresses as PNG."""

    picture: tyro.conf.Positional[Picture]
    """An image file, cut square, or one of our own scenes."""
    known: tuple[str, ...] = ()
    """Pictures whose best depth is known, as PICTURE=DEPTH, at least three; by default our own scenes with the depths
    of the networks that were put together by hand for them."""
    size: int = 96
    """Side in pixels at which ratios are taken."""

    def run(self) -> None:
        """Print the ratio and the depth, with an interval."""
        if self.known:
            pairs = [_pair(word) for word in self.known]
        else:
            pairs = [(name, float(len(layerize(scene(name)).banks))) for name in SCENES if name != self.picture]
        line = fit_depth([read_picture(name, self.size) for name, _ in pairs], [depth for _, depth in pairs])
        picture = read_picture(self.picture, self.size)
        found = predict_depth(picture, line)
        print(f"PNG ratio  {png_ratio(picture):.4f}")
        print(f"depth      {found} ({found.note})")
        print(f"left-out error of the line  {line.left_out}")


def read_picture(name: str, size: int) -> Float[Tensor, "size size 3"]:
    """A scene, or an image file: its middle square, at this size, RGB in 0…1."""
    import numpy as np
    import torch
    from PIL import Image, UnidentifiedImageError

    if size < 2:
        raise refuse("--size", "be at least 2", size, "64 is usual.")
    if name in SCENES:
        return layerize(scene(name)).render(size)
    try:
        with Image.open(name) as file:
            image = file.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        known = f"an image file, or one of {', '.join(SCENES)}"
        raise refuse("picture", f"be {known}", f"{name!r} ({type(error).__name__})", "Check the path.") from None
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(square)).float() / 255


def _pair(word: str) -> tuple[str, float]:
    name, _, depth = word.rpartition("=")
    if not name or not depth.replace(".", "", 1).isdecimal():
        raise refuse("--known", "be PICTURE=DEPTH", repr(word), "For example --known skull.png=12.")
    return name, float(depth)
