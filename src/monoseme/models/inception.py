"""InceptionV1 (GoogLeNet; Szegedy et al. 2015), an ImageNet classifier, from a state dict that the user has.

Two public sets of weights are read, told apart by their names. They differ in more than names:

==============  ==========================================  ==================================================
layout          ``torchvision`` (its `googlenet`)           ``lucid`` (the "inception5h" graph, as ported for
                                                            lucent; the network of the circuits articles)
==============  ==========================================  ==================================================
convolution     batch norm, no bias                         bias; two local response normalisations in the stem
5 × 5 branch    3 × 3 kernels (a known slip, trained so)    5 × 5 kernels
last pool       2 × 2                                       3 × 3
classes         1000                                        1008, in an order of their own
input           (pixel ÷ 255 - 0.5) ÷ 0.5                   pixel - 117
==============  ==========================================  ==================================================

Hooks worth knowing: ``conv2d0`` … ``conv2d2``; ``mixed3a`` … ``mixed5b``, the joined maps, the same in both layouts;
``mixed3b.three`` and the like, one branch, after its ReLU; ``pool`` (1024 means), ``classifier`` (logits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.seeds import generator
from monoseme.models.efficientnet import Pool, classes
from monoseme.models.facts import ModelFacts
from monoseme.models.hooked import HookedModel
from monoseme.models.picture import squeezed
from monoseme.models.state import read_state, translate

__all__ = ["InceptionV1", "names", "open_inception", "open_named_inception"]

NAME = "inceptionv1"
LAYOUTS = ("torchvision", "lucid")
RANDOM_CAVEAT = "Random weights in the shape of InceptionV1: a control, not a model."
SIDE, OUT = 224, {"torchvision": 1000, "lucid": 1008}

# channels out: 1×1; 1×1 before, and 3×3; 1×1 before, and 5×5; 1×1 behind the pool
BRANCHES = {
    "mixed3a": (64, 96, 128, 16, 32, 32),
    "mixed3b": (128, 128, 192, 32, 96, 64),
    "mixed4a": (192, 96, 208, 16, 48, 64),
    "mixed4b": (160, 112, 224, 24, 64, 64),
    "mixed4c": (128, 128, 256, 24, 64, 64),
    "mixed4d": (112, 144, 288, 32, 64, 64),
    "mixed4e": (256, 160, 320, 32, 128, 128),
    "mixed5a": (256, 160, 320, 32, 128, 128),
    "mixed5b": (384, 192, 384, 48, 128, 128),
}
LUCID_BRANCHES = BRANCHES | {"mixed4a": (192, 96, 204, 16, 48, 64), "mixed5a": (256, 160, 320, 48, 128, 128)}

# our name of a layer → torchvision's, lucid's; those of a mixed block stand behind the block's own name
STEM = {"conv2d0": ("conv1", "conv2d0"), "conv2d1": ("conv2", "conv2d1"), "conv2d2": ("conv3", "conv2d2")}
PARTS = {
    "one": ("branch1", "1x1"),
    "reduce3": ("branch2.0", "3x3_bottleneck"),
    "three": ("branch2.1", "3x3"),
    "reduce5": ("branch3.0", "5x5_bottleneck"),
    "five": ("branch3.1", "5x5"),
    "project": ("branch4.1", "pool_reduce"),
}
NORMED = (("conv", "conv"), ("norm", "bn"))
AUXILIARY = ("aux1.", "aux2.")  # torchvision's side classifiers: for training alone


class Conv(nn.Module):
    """Convolution, batch norm or bias, ReLU; as large as its input, or half as large."""

    def __init__(self, ins: int, outs: int, kernel: int, layout: str, stride: int = 1) -> None:
        super().__init__()
        normed = layout == "torchvision"
        self.conv = nn.Conv2d(ins, outs, kernel, stride, bias=not normed)
        self.norm = nn.BatchNorm2d(outs, eps=1e-3) if normed else nn.Identity()
        before, after = kernel // 2, kernel // 2
        if stride == 2 and not normed:  # TensorFlow's "same" at an even side: the odd pixel goes right and below
            before -= 1
        self.padding = (before, after, before, after)

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B e h w"]:
        """Feature map to feature map."""
        return F.relu(self.norm(self.conv(F.pad(x, self.padding))))


class Mixed(nn.Module):
    """Four branches of one map, their channels one behind another."""

    def __init__(self, ins: int, widths: tuple[int, ...], layout: str) -> None:
        super().__init__()
        one, before3, three, before5, five, project = widths
        self.one = Conv(ins, one, 1, layout)
        self.reduce3, self.three = Conv(ins, before3, 1, layout), Conv(before3, three, 3, layout)
        self.reduce5 = Conv(ins, before5, 1, layout)
        self.five = Conv(before5, five, 3 if layout == "torchvision" else 5, layout)
        self.project = Conv(ins, project, 1, layout)

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B e H W"]:
        """Feature map to feature map."""
        pooled = F.max_pool2d(x, 3, 1, 1)
        branches = (self.one(x), self.three(self.reduce3(x)), self.five(self.reduce5(x)), self.project(pooled))
        return torch.cat(branches, 1)


class InceptionV1(nn.Module):
    """Pictures, as `preprocess` makes them, to logits; trained at 224.

    Parameters
    ----------
    layout
        ``"torchvision"`` or ``"lucid"``: which public weights it is to hold.
    outputs
        Number of classes; by default those of the layout.
    """

    def __init__(self, layout: str = "torchvision", outputs: int | None = None) -> None:
        super().__init__()
        if layout not in LAYOUTS:
            raise refuse("layout", f"be one of {', '.join(LAYOUTS)}", repr(layout), "It is whose weights are read.")
        self.layout = layout
        self.conv2d0 = Conv(3, 64, 7, layout, stride=2)
        self.conv2d1, self.conv2d2 = Conv(64, 64, 1, layout), Conv(64, 192, 3, layout)
        ins = 192
        for name, widths in (BRANCHES if layout == "torchvision" else LUCID_BRANCHES).items():
            self.add_module(name, Mixed(ins, widths, layout))
            ins = widths[0] + widths[2] + widths[4] + widths[5]
        self.pool = Pool()
        self.classifier = nn.Linear(ins, OUT[layout] if outputs is None else outputs)

    def forward(self, pictures: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B K"]:
        """Logits."""
        x = self._respond(halve(self.conv2d0(pictures)))
        x = halve(self._respond(self.conv2d2(self.conv2d1(x))))
        for name in BRANCHES:
            if name == "mixed4a":
                x = halve(x)
            elif name == "mixed5a":
                x = halve(x, 2 if self.layout == "torchvision" else 3)
            x = self.get_submodule(name)(x)
        return self.classifier(self.pool(x))

    def _respond(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B c H W"]:
        """Local response normalisation over nine channels, in the layout that has it."""
        return F.local_response_norm(x, 9, 1e-4, 0.5, 1.0) if self.layout == "lucid" else x


def halve(x: Float[Tensor, "B c H W"], kernel: int = 3) -> Float[Tensor, "B c h w"]:
    """Maxima of every other window; the last one may reach over the edge."""
    return F.max_pool2d(x, kernel, 2, ceil_mode=True)


def open_inception(weights: str, seed: int) -> HookedModel:
    """Open ``inceptionv1``: random weights only, in torchvision's layout. No package ships trained ones."""
    if weights != "random":
        fix = f"Write '{NAME}:FILE', a state dict of torchvision's googlenet or of lucent's inceptionv1."
        raise refuse("model", "come with a file of its weights", repr(NAME), fix)
    return _hooked(NAME, _shape("torchvision"), None, seed)


def open_named_inception(name: str, weights: str, seed: int) -> HookedModel:
    """Open ``inceptionv1:FILE``, or ``inceptionv1:LAYOUT`` with random weights.

    Parameters
    ----------
    name
        A state dict in safetensors, or a .pth of tensors alone. torchvision's is taken to be trained on inputs in
        -1…1, as its own weights were (there ``transform_input=True``).
    weights
        "pretrained", or "random": the file's shape, or the layout's.
    seed
        Of random weights.

    Raises
    ------
    UserError
        No such file, a pickle with more than tensors, names of neither layout, keys that are missing or too many,
        tensors of other shapes.
    """
    if weights == "random" and name in LAYOUTS:
        return _hooked(f"{NAME}:{name}", _shape(name), None, seed)
    theirs = read_state(name)
    layout = "lucid" if "conv2d0_pre_relu_conv.weight" in theirs else "torchvision"
    last = theirs.get("fc.weight" if layout == "torchvision" else "softmax2_pre_activation_matmul.weight")
    net = _shape(layout, None if last is None or last.ndim != 2 or not len(last) else len(last))
    state = translate(theirs, net.state_dict(), names(layout), AUXILIARY)
    return _hooked(f"{NAME}:{name}", net, None if weights == "random" else state, seed)


def _shape(layout: str, outputs: int | None = None) -> InceptionV1:
    """The network without numbers: default initialisation would draw from the global generator."""
    with torch.device("meta"):
        return InceptionV1(layout, outputs)


def names(layout: str) -> dict[str, str]:
    """Our layers' names → those of a layout, without ``.weight`` and the like."""
    which = LAYOUTS.index(layout)
    pairs = {ours: theirs[which] for ours, theirs in STEM.items()}
    for block in BRANCHES:
        prefix = f"{block}_" if layout == "lucid" else f"{block.replace('mixed', 'inception')}."
        pairs |= {f"{block}.{ours}": prefix + theirs[which] for ours, theirs in PARTS.items()}
    if layout == "lucid":
        found = {f"{ours}.conv": f"{theirs}_pre_relu_conv" for ours, theirs in pairs.items()}
        return found | {"classifier": "softmax2_pre_activation_matmul"}
    found = {f"{ours}.{mine}": f"{theirs}.{its}" for ours, theirs in pairs.items() for mine, its in NORMED}
    return found | {"classifier": "fc"}


def _hooked(name: str, net: InceptionV1, state: dict[str, Tensor] | None, seed: int) -> HookedModel:
    net.to_empty(device="cpu").requires_grad_(False)
    if state is None:
        draw(net, seed)
        said, caveat = f"random (seed {seed})", RANDOM_CAVEAT
    else:
        net.load_state_dict(state)
        said, caveat = "pretrained", ""
    known = classes() if net.classifier.out_features == 1000 else ()
    return HookedModel(net.eval(), ModelFacts(name, said, caveat, preprocess=PREPROCESS[net.layout], classes=known))


@torch.no_grad()
def draw(net: InceptionV1, seed: int) -> None:
    """Draw every weight anew from the stream of `seed`, so that maps keep their size on the way up (He et al. 2015)."""
    stream = generator(seed, NAME)
    for child in net.modules():
        if isinstance(child, nn.Conv2d):
            nn.init.kaiming_normal_(child.weight, nonlinearity="relu", generator=stream)
        elif isinstance(child, nn.BatchNorm2d):
            child.reset_parameters()
        elif isinstance(child, nn.Linear):
            nn.init.normal_(child.weight, std=0.02, generator=stream)
        if isinstance(child, (nn.Conv2d, nn.Linear)) and child.bias is not None:
            child.bias.zero_()


def _pixels(picture: Any) -> Float[np.ndarray, "3 224 224"]:
    return squeezed(picture, SIDE).transpose(2, 0, 1).astype(np.float32)


def preprocess_torchvision(picture: Any) -> Float[Tensor, "3 224 224"]:
    """(H, W, 3) uint8 picture, the whole of it squeezed (bicubic), in -1…1."""
    return torch.from_numpy(_pixels(picture) / 127.5 - 1)


def preprocess_lucid(picture: Any) -> Float[Tensor, "3 224 224"]:
    """(H, W, 3) uint8 picture, the whole of it squeezed (bicubic), pixel - 117."""
    return torch.from_numpy(_pixels(picture) - 117)


PREPROCESS: dict[str, Callable[[Any], Tensor]] = {
    "torchvision": preprocess_torchvision,
    "lucid": preprocess_lucid,
}
