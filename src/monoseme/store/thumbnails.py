"""Small pictures of held-out samples for the pages, and their objects' masks on the token grid."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, UInt8
from torch import Tensor

from monoseme.store.sources import Sample, Source

__all__ = ["held_out_bytes", "mask_path", "read_mask", "render", "thumbnail_path"]

SIDE = 160  # pixels, at most
PROBED = 16  # held-out samples rendered to predict the size of the others


def thumbnail_path(folder: Path, sample: int) -> Path:
    """File of a sample's thumbnail; named by number, so that no id ever becomes a path."""
    return folder / "thumbnails" / f"{sample:06d}.jpg"


def mask_path(folder: Path, sample: int) -> Path:
    """File of a sample's mask."""
    return folder / "masks" / f"{sample:06d}.png"


def render(sample: Sample, grid: tuple[int, int]) -> tuple[bytes, bytes | None]:
    """Encode a sample's thumbnail (JPEG, longer side at most 160 pixels) and its mask, if it has one (PNG)."""
    from PIL import Image

    picture = Image.fromarray(sample.image)
    picture.thumbnail((SIDE, SIDE))
    thumbnail = io.BytesIO()
    picture.save(thumbnail, "JPEG", quality=85)
    if sample.mask is None:
        return thumbnail.getvalue(), None
    mask = io.BytesIO()
    Image.fromarray(np.round(255 * coverage(sample.mask, grid)).astype(np.uint8)).save(mask, "PNG")
    return thumbnail.getvalue(), mask.getvalue()


def coverage(mask: Bool[np.ndarray, "H W"], grid: tuple[int, int]) -> Float32[np.ndarray, "h w"]:
    """Share of every token's pixels that the mask covers."""
    pixels = torch.from_numpy(mask.astype(np.float32))[None, None]
    return torch.nn.functional.adaptive_avg_pool2d(pixels, grid)[0, 0].numpy()


def read_mask(path: Path) -> Float[Tensor, " T"]:
    """Share of every token covered by the object, in steps of 1/255."""
    from PIL import Image

    with Image.open(path) as file:
        values: UInt8[np.ndarray, "h w"] = np.asarray(file)
    return torch.from_numpy(values.astype(np.float32) / 255).reshape(-1)


def held_out_bytes(source: Source, held: Sequence[int], grid: tuple[int, int]) -> int:
    """Bytes of all thumbnails and masks, from a few rendered ones spread over the held-out samples."""
    picked = sorted({int(i) for i in np.linspace(0, len(held) - 1, PROBED)}) if held else []
    sizes = []
    for i in picked:
        item = source[held[i]]
        sizes.append(sum(len(part or b"") for part in render(item, grid)) if isinstance(item, Sample) else 0)
    return round(len(held) * float(np.mean(sizes))) if sizes else 0
