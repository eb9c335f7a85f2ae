"""Pictures from a folder, or from the wheels of scikit-image and scikit-learn. Nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from monoseme.core.errors import refuse
from monoseme.store.sources import Entry, Sample

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["PictureFolder", "WheelPictures", "check_size", "open_picture", "wheel_files", "wheel_pictures"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
GREY = (128, 128, 128, 255)
# decoders that stay in this process: a file that calls itself .png may be PostScript, which starts another program
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

# colour photographs that ship inside the wheels themselves (checked against scikit-image 0.26, scikit-learn 1.9)
SCENES = {
    "skimage": ("data", ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")),
    "sklearn": ("datasets/images", ("china.jpg", "flower.jpg")),
}
# through a telescope or a microscope: pictures to learn from, but no background for anything
INSTRUMENTS = {"skimage": ("data", ("hubble_deep_field.jpg", "ihc.png"))}


def open_picture(file: Path | BytesIO, most: int | None = None) -> Image:
    """Decode a picture whole, upright, as RGB or RGBA; raise OSError with the reason when it cannot be.

    One with more than `most` pixels a side is not decoded.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=FORMATS) as found:
            if most is not None and max(found.size) > most:
                raise OSError(f"{found.width} x {found.height} pixels, at most {most} a side")
            if found.mode == "F" or found.mode.startswith("I"):
                raise OSError(f"{found.mode} pixels: more than 8 bits a channel are not read")
            transparent = found.mode in ("RGBA", "LA", "PA") or "transparency" in found.info
            # transposed first: convert() would lose the orientation tag of some formats
            upright = ImageOps.exif_transpose(found)
            return upright.convert("RGBA" if transparent else "RGB")
    except (
        SyntaxError, ValueError, EOFError, Image.DecompressionBombError, Image.DecompressionBombWarning
    ) as error:  # fmt: skip
        raise OSError(" ".join(str(error).split()) or type(error).__name__) from error


def fit(picture: Image, size: int | tuple[int, int]) -> UInt8[np.ndarray, "H W 3"]:
    """Resize and crop the middle to a square of side `size`, or to (height, width); transparent parts become grey."""
    from PIL import Image, ImageOps

    if picture.mode == "RGBA":
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, GREY), picture).convert("RGB")
    height, width = (size, size) if isinstance(size, int) else size
    return np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC))


def check_size(size: int) -> None:
    """Raise unless `size` is a possible side of a picture."""
    if size < 1:
        raise refuse("size", "be at least 1 pixel", size, "252 gives a ViT of patch 14 a grid of 18 x 18.")


def find_pictures(folder: Path, exclude: Sequence[str] = ()) -> tuple[list[Path], list[tuple[str, str]]]:
    """Readable pictures below a folder in the order of their paths, and (path, reason) of those that are not."""
    folder = Path(folder)
    if not folder.is_dir():
        raise refuse("path", "be a folder of pictures", f"{folder} (no such folder)", "Check the path.")
    good, skipped = [], []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix.lower() not in SUFFIXES or any(word in name for word in exclude):
            continue
        try:
            open_picture(path)
            good.append(path)
        except OSError as error:
            skipped.append((name, str(error)))
    return good, skipped


def content(path: Path) -> str:
    """Group of a picture file: a hash of its bytes, so that copies of one file never straddle a split."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class PictureFolder:
    """All pictures below a folder, each resized and cropped to a square. Every file is decoded once when this is made.

    Parameters
    ----------
    path
        Searched through and through; the name of the folder that holds a picture becomes its label.
    size
        Side in pixels; a multiple of the patch for a vision transformer.
    exclude
        Skip paths (below `path`) that contain one of these words.

    Attributes
    ----------
    skipped
        (path, reason) of picture files that could not be read.
    """

    def __init__(self, path: str | Path, size: int = 252, exclude: Sequence[str] = ()) -> None:
        check_size(size)
        self.path, self.size = Path(path).absolute(), size
        self._files, self.skipped = find_pictures(self.path, exclude)
        if not self._files:
            raise refuse(
                "path",
                f"hold pictures ({', '.join(SUFFIXES)})",
                f"{path} with none" + (f" that can be read of {len(self.skipped)}" if self.skipped else ""),
                "Choose another folder.",
            )
        self.entries = [self._entry(file) for file in self._files]

    def _entry(self, file: Path) -> Entry:
        name = file.relative_to(self.path)
        parent = name.parent.as_posix()
        return Entry(name.as_posix(), content(file), None, None if parent == "." else {"label": parent})

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: int) -> Sample:
        entry = self.entries[i]
        return Sample(entry.id, fit(open_picture(self._files[i]), self.size), entry.target, entry.group)

    def __repr__(self) -> str:
        return f"PictureFolder({str(self.path)!r}, size={self.size}): {len(self)} pictures, {len(self.skipped)} skipped"


def wheel_files(table: Mapping[str, tuple[str, Sequence[str]]] = SCENES) -> list[Path]:
    """Photographs that ship inside installed wheels. The packages are located, not imported."""
    found = []
    for package, (folder, names) in table.items():
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec is not None else []:
            found += [path for name in names if (path := Path(root) / folder / name).exists()]
    return found


class WheelPictures:
    """Crops of given photographs, side by side and without overlap. Crops of one photograph form a group."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        self.size = size
        self._crops: list[tuple[Path, int, int]] = []
        for path in files:
            width, height = open_picture(path).size
            places = [(y, x) for y in range(0, height - size + 1, size) for x in range(0, width - size + 1, size)]
            self._crops += [(path, y, x) for y, x in places]
        self.entries = [Entry(f"{path.name}@{y},{x}", path.name, None, None) for path, y, x in self._crops]
        self._open = lru_cache(maxsize=1)(lambda path: np.asarray(open_picture(path).convert("RGB")))

    def __len__(self) -> int:
        return len(self._crops)

    def __getitem__(self, i: int) -> Sample:
        path, y, x = self._crops[i]
        entry, crop = self.entries[i], (slice(y, y + self.size), slice(x, x + self.size))
        return Sample(entry.id, self._open(path)[crop].copy(), entry.target, entry.group)

    def __repr__(self) -> str:
        photographs: Any = {entry.group for entry in self.entries}
        return f"WheelPictures(size={self.size}): {len(self)} crops of {len(photographs)} photographs"


def wheel_pictures(size: int = 252) -> WheelPictures:
    """Crops of the photographs inside the wheels of scikit-image and scikit-learn: few, but always there."""
    check_size(size)
    pictures = WheelPictures(wheel_files() + wheel_files(INSTRUMENTS), size)
    if not len(pictures):
        raise refuse(
            "size", "fit into a photograph of the installed wheels", size,
            "Lower it, or run: pip install scikit-image scikit-learn",
        )  # fmt: skip
    return pictures
