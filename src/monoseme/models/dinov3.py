"""DINOv3's preprocessing, which transformers has only with torchvision: scale, then resize, then normalise.

Everything else of DINOv3 is `hugging`'s: ``hf:facebook/dinov3-vits16-pretrain-lvd1689m`` and its like, once a user has
the (gated) weights; or ``timm:vit_small_patch16_dinov3``. Leading tokens are CLS and four registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.parse import Entry
from monoseme.models.picture import as_pixels

__all__ = ["PROCESSORS", "dinov3_preprocess"]

PROCESSORS = ("DINOv3ViTImageProcessor", "DINOv3ViTImageProcessorFast")
DEFAULTS = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "do_center_crop": False,
    "size": {"height": 224, "width": 224},
    "resample": 2,
    "rescale_factor": 1 / 255,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
MODES = {2: "bilinear", 3: "bicubic"}  # by Pillow's numbers


def dinov3_preprocess(name: str, config: Mapping[str, Any]) -> Callable[[Any], Tensor]:
    """Turn a ``preprocessor_config.json`` of DINOv3 into a function from a picture to (3, H, W).

    Parameters
    ----------
    name
        Of the model, for errors.
    config
        The file's fields; those that are missing or null are the class's own.

    Raises
    ------
    UserError
        Cropping, another way of resizing, fields of another type.
    """
    merged = DEFAULTS | {key: value for key, value in config.items() if value is not None}
    fields = Entry(merged, f"{name}: preprocessor_config.json")
    if fields.get("do_center_crop", bool) or fields.get("resample", int) not in MODES:
        rule = "resize bilinearly or bicubically, without a crop"
        raise refuse("model", rule, f"{name!r}, whose preprocessing does not", "Bring tensors, or another model.")
    size = Entry(fields.get("size", dict), f"{fields.path}: size")
    sides = (size.get("height", int), size.get("width", int)) if fields.get("do_resize", bool) else None
    factor = fields.get("rescale_factor", float) if fields.get("do_rescale", bool) else 1.0
    mode = MODES[merged["resample"]]
    mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    if fields.get("do_normalize", bool):
        mean, std = (_channels(fields, key) for key in ("image_mean", "image_std"))

    def preprocess(picture: Any) -> Tensor:
        """(H, W, 3) uint8 picture to the model's (3, H, W)."""
        x = torch.tensor(as_pixels(picture)).movedim(-1, 0).float() * factor
        if sides is not None and x.shape[1:] != sides:
            x = F.interpolate(x[None], sides, mode=mode, antialias=True, align_corners=False)[0]
        return (x - mean) / std

    return preprocess


def _channels(fields: Entry, key: str) -> Tensor:
    values = fields.get(key, list)
    if len(values) != 3 or not all(isinstance(value, (int, float)) and value == value for value in values):
        raise refuse(f"{fields.path}: {key}", "be three numbers", values, "The file is damaged.")
    return torch.tensor(values, dtype=torch.float32)[:, None, None]
