"""What is painted: own scenes, two photographs, and the public genomes where a user has them.

Photographs are scikit-learn's two samples, a flower and a temple among trees, cut square and reduced to as many pixels
as the protocol says before they are enlarged again: that much small networks can paint.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.canvas import INPUTS
from monoseme.composition.judges.features import FeatureJudge
from monoseme.composition.layerize import layerize
from monoseme.composition.network import ImageNetwork
from monoseme.composition.scenes import SCENES, scene
from monoseme.core.errors import refuse
from monoseme.papers.composition.protocol import protocol

__all__ = ["GENOMES", "PHOTOGRAPHS", "SEVERAL", "judge_of", "public_dense", "target"]

PHOTOGRAPHS = {"flower": "flower.jpg", "temple": "china.jpg"}
SEVERAL = ("house", "temple")  # several objects
# hidden layers and the bank of their neurons: what fer_params.npz of 2505.11581 holds flat
GENOMES = {
    "skull": (12, (("identity", 15), ("gaussian", 4), ("identity", 2), ("sin", 1))),
    "butterfly": (16, (("identity", 17), ("gaussian", 4), ("sigmoid", 1), ("sin", 1))),
    "apple": (33, (("identity", 28), ("gaussian", 3), ("sigmoid", 5), ("sin", 2))),
}


def target(name: str, size: int) -> Float[Tensor, "size size 3"]:
    """The picture, RGB in 0…1."""
    if name in SCENES:
        return layerize(scene(name)).render(size)
    if name in PHOTOGRAPHS:
        return _photograph(PHOTOGRAPHS[name], size)
    known = ", ".join([*SCENES, *PHOTOGRAPHS])
    raise refuse("target", f"be one of {known}", repr(name), "Genomes are read with load_genome.")


def judge_of(picture: Float[Tensor, "h w 3"], name: str) -> FeatureJudge:
    """The judge of a target: the other scenes are among what is not it."""
    others = [target(other, len(picture)) for other in SCENES if other != name]
    return FeatureJudge(picture, others)


def public_dense(folder: Path, name: str, kind: str = "sgd") -> ImageNetwork:
    """Read a network of fer_params.npz of 2505.11581, ``"sgd"`` or ``"picbreeder"``, in float64.

    The file is flat: layers in lexicographic order of ``Dense_0``, ``Dense_1``, ``Dense_10``, …; kernels (in, out).
    """
    depth, kinds = GENOMES[name]
    names = [activation for activation, count in kinds for _ in range(count)]
    with np.load(folder / "fer_params.npz", allow_pickle=False) as file:
        flat = file[f"{kind}_{name}"]
    sizes = [len(INPUTS), *[len(names)] * depth, 3]
    weights: list[Tensor] = [torch.empty(0)] * (depth + 1)
    for i in sorted(range(depth + 1), key=lambda i: f"Dense_{i}"):
        many = sizes[i] * sizes[i + 1]
        weights[i] = torch.from_numpy(flat[:many].reshape(sizes[i], sizes[i + 1]).T.copy()).double()
        flat = flat[many:]
    return ImageNetwork(weights, [names] * depth)


def _photograph(file: str, size: int) -> Float[Tensor, "size size 3"]:
    from PIL import Image
    from sklearn.datasets import load_sample_image

    pixels = np.asarray(load_sample_image(file))
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    detail = int(protocol()["photo_detail"])
    square = Image.fromarray(pixels[top : top + side, left : left + side])
    soft = square.resize((detail, detail), Image.Resampling.LANCZOS).resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(soft)).float() / 255
