"""Training an image network on a picture: full batches of pixels through the one training loop, masks kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.composition.canvas import coordinates, to_rgb
from monoseme.composition.network import ImageNetwork
from monoseme.core.errors import refuse
from monoseme.core.rows import ArrayRows, RowSource
from monoseme.learning import History, Progress, Schedule, TrainConfig, train

__all__ = ["Fitted", "Painting", "fit_image", "picture_error", "picture_loss"]


@dataclass(frozen=True)
class Fitted:
    """A trained network: the same object that was given. `loss` is its mean squared error on RGB; lower is better."""

    network: ImageNetwork
    loss: float
    history: History


class Painting:
    """An image network and its masks, as the training loop wants them.

    Parameters
    ----------
    network
        Trained in place.
    normalise
        Divide every step's whole gradient by its norm, as arXiv 2505.11581 does.
    """

    def __init__(self, network: ImageNetwork, normalise: bool = False) -> None:
        self.network, self.normalise = network, normalise

    def parameters(self) -> list[nn.Parameter]:
        """The matrices."""
        return list(self.network.weights)

    def adam_parameters(self) -> Iterable[nn.Parameter]:
        """First and last layer: Muon is for hidden ones."""
        return (self.network.weights[0], self.network.weights[-1])

    def state(self) -> dict[str, Tensor]:
        """Weights and masks."""
        return {name: tensor.detach() for name, tensor in self.network.state_dict().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        self.network.load_state_dict(dict(state))

    def begin(self, rows: RowSource) -> None:
        """Nothing depends on the data."""

    def loss(self, x: Float[Tensor, "P 7"], step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Mean squared error on RGB."""
        return (to_rgb(self.network(x[:, :4])) - x[:, 4:]).square().mean(), {}

    @torch.no_grad()
    def before_step(self, step: int) -> None:
        """Masked weights have no gradient, so that no moment of theirs ever grows."""
        for w, mask in zip(self.network.weights, self.network.masks, strict=True):
            if w.grad is not None:
                w.grad.mul_(mask)
        if self.normalise:
            grads = [w.grad for w in self.network.weights if w.grad is not None]
            norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt().clamp(min=1e-12)
            for g in grads:
                g.div_(norm)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Muon's orthogonal updates leak into masked weights: they are put back to 0."""
        for w, mask in zip(self.network.weights, self.network.masks, strict=True):
            w.mul_(mask)

    def finish(self) -> None:
        """Masked weights are 0 whoever looks."""
        self.after_step(-1)


def fit_image(
    network: ImageNetwork,
    target: Float[Tensor, "h w 3"],
    *,
    steps: int = 2000,
    lr: float = 3e-3,
    optimiser: str = "adam",
    decay: bool = True,
    normalise: bool = False,
    out: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Fitted:
    """Train a network on a picture, in place, with every pixel in every step.

    Parameters
    ----------
    network
        Of any size; what is masked stays 0.
    target
        RGB in 0…1, square.
    steps, lr, decay
        The learning rate falls to 0 along a cosine, or stays.
    optimiser
        ``"adam"`` (with `normalise`: the recipe of arXiv 2505.11581), or ``"muon"``: hidden layers by Muon, scaled like
        Adam's updates so that one rate serves both, first and last layer by Adam.
    out
        Folder for checkpoints: a fit that was stopped goes on there.
    """
    if target.ndim != 3 or target.shape[0] != target.shape[1] or target.shape[2] != 3:
        raise refuse("target", "be (size, size, 3)", tuple(target.shape), "Crop it to a square.")
    if not bool(((target >= 0) & (target <= 1)).all()):
        raise refuse("target", "lie in 0…1", (float(target.min()), float(target.max())), "Divide bytes by 255.")
    if optimiser not in ("adam", "muon"):
        raise refuse("optimiser", 'be "adam" or "muon"', repr(optimiser), "Choose one of the two.")
    size = len(target)
    rows = ArrayRows(torch.cat([coordinates(size), target.reshape(-1, 3).float().cpu()], 1))
    config = TrainConfig(
        steps,
        batch_size=size * size,
        lr=lr,
        optimiser=optimiser,  # pyright: ignore[reportArgumentType]
        schedule=Schedule(decay="cosine" if decay else "constant"),
        checkpoint_every=max(100, steps // 10),
    )
    thing = Painting(network, normalise)
    history = train(thing, rows, config=config, out=out, progress=progress, about={"normalise": normalise})
    return Fitted(network, picture_loss(network, target), history)


def picture_error(network: ImageNetwork, target: Float[Tensor, "h w 3"]) -> Float[Tensor, ""]:
    """Mean squared error of the rendered picture on RGB, with its gradient; lower is better."""
    like = network.weights[0]
    made = to_rgb(network(coordinates(len(target), like.dtype).to(like.device)))
    return (made.double() - target.reshape(-1, 3).double().to(like.device)).square().mean()


@torch.no_grad()
def picture_loss(network: ImageNetwork, target: Float[Tensor, "h w 3"]) -> float:
    """`picture_error` as a number."""
    return float(picture_error(network, target))
