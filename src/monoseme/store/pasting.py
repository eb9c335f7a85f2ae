"""Cut-out objects pasted on photographs: many distinct pictures from few files, with the object's place known.

Both ingredients are split before anything is pasted. A cut-out belongs to one split, and so does a photograph: pictures
of the test split share neither an object nor a background with the training split.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.store.pictures import (
    WheelPictures,
    check_size,
    content,
    find_pictures,
    open_picture,
    wheel_files,
    wheel_pictures,
)
from monoseme.store.sources import SPLITS, Entry, Sample, assign_splits

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Composites", "composites", "demo_pictures"]

DRAWN = ("cartoon", "toys", "symbols", "flags")  # drawings, not photographs of things
SMALLEST = 32  # a cut-out below this many pixels would only be a blur
# photographs are few, so the held-out splits get a larger share of them
BACKGROUND_SPLIT = (0.6, 0.2, 0.2)
# where the Debian packages tuxpaint-stamps-default and mate-backgrounds keep them
STAMPS, NATURE = "usr/share/tuxpaint/stamps", "usr/share/backgrounds/mate/nature"


@dataclass(frozen=True)
class Composites:
    """Pictures made by `composites`.

    Attributes
    ----------
    entries
        One a picture; `target` holds the label of the cut-out (its folder), the cut-out, and the photograph.
    size, seed
        Side in pixels; seed of every choice.
    skipped
        (path, reason) of files that were not used.
    """

    entries: list[Entry] = field(repr=False)
    size: int
    seed: int
    skipped: list[tuple[str, str]] = field(repr=False)
    _cutouts: list[Path] = field(repr=False)
    _photographs: list[Path] = field(repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Sample:
        entry = self.entries[i]
        stream = rng(self.seed, "paste", entry.id)
        ground = _crop(_photograph(self._photographs[i], 3 * self.size), self.size, stream)
        cutout = _resize(open_picture(self._cutouts[i]).convert("RGBA"), self.size, stream)
        free = [self.size - side for side in cutout.size]
        x, y = (int(stream.integers(0, room + 1)) for room in free)
        ground.paste(cutout, (x, y), cutout)
        mask = np.zeros((self.size, self.size), dtype=bool)
        mask[y : y + cutout.height, x : x + cutout.width] = np.asarray(cutout.getchannel("A")) > 127
        return Sample(entry.id, np.asarray(ground), entry.target, entry.group, mask)


@lru_cache(maxsize=32)
def _photograph(path: Path, shorter: int) -> Image:
    """A photograph, shrunk so that its shorter side is at most `shorter` pixels."""
    picture = open_picture(path).convert("RGB")
    scale = min(1.0, shorter / min(picture.size))
    return picture.resize((round(picture.width * scale), round(picture.height * scale)))


def _crop(picture: Image, size: int, stream: np.random.Generator) -> Image:
    """Cut a random square between `size` and the whole shorter side, mirrored half the time; resize it to `size`."""
    from PIL import Image, ImageOps

    shorter = min(picture.size)
    side = int(stream.integers(min(size, shorter), shorter + 1))
    x, y = (int(stream.integers(0, whole - side + 1)) for whole in picture.size)
    square = picture.resize((size, size), Image.Resampling.BICUBIC, (x, y, x + side, y + side))
    return ImageOps.mirror(square) if stream.random() < 0.5 else square


def _resize(cutout: Image, size: int, stream: np.random.Generator) -> Image:
    """Scale the visible part of a cut-out so that its longer side is 45 to 90 % of the picture; maybe mirror it."""
    from PIL import Image, ImageOps

    cutout = cutout.crop(cutout.getchannel("A").getbbox())
    scale = stream.uniform(0.45, 0.9) * size / max(cutout.size)
    shape = (max(1, round(cutout.width * scale)), max(1, round(cutout.height * scale)))
    resized = cutout.resize(shape, Image.Resampling.BICUBIC)
    return ImageOps.mirror(resized) if stream.random() < 0.5 else resized


def composites(
    cutouts: str | Path,
    photographs: Sequence[Path],
    size: int = 252,
    per_cutout: int = 2,
    seed: int = 0,
    split: Sequence[float] = (0.8, 0.1, 0.1),
    exclude: Sequence[str] = DRAWN,
    strata: int = 0,
) -> Composites:
    """Paste every cut-out on crops of photographs.

    Parameters
    ----------
    cutouts
        Folder of pictures with transparency; the folder a file lies in is its label.
    photographs
        At least one a split.
    size
        Side of a picture in pixels.
    per_cutout
        Pictures made of one cut-out, each with its own place, scale and background crop.
    seed
        Seed of the splits and of every picture.
    split
        Shares of cut-outs in train, validation and test.
    exclude
        Leave out cut-outs whose path contains one of these words.
    strata
        Split the cut-outs of every label by themselves, labels cut to so many folders, so that a label is on all sides;
        0 splits all together.
    """
    check_size(size)
    folder = Path(cutouts)
    files, skipped = find_pictures(folder, exclude)
    names = {file: file.relative_to(folder).as_posix() for file in files}
    usable = []
    for file in files:
        reason = _unusable(open_picture(file))
        if reason:
            skipped.append((names[file], reason))
        else:
            usable.append(file)
    grounds = _grounds(photographs, seed)
    if not usable or per_cutout < 1:
        raise refuse("cutouts", "hold cut-outs with transparency", f"none in {folder}", "Choose another folder.")
    groups = {file: content(file) for file in usable}
    stratum = {groups[file]: Path(names[file]).parent.parts[:strata] for file in reversed(usable)}
    splits: dict[str, str] = {}
    for part in set(stratum.values()):
        splits |= assign_splits([group for group, own in stratum.items() if own == part], split, seed)
    missing = sorted(set(splits.values()) - {name for name, files in grounds.items() if files})
    if missing:
        raise refuse(
            "photographs", "be enough for one a split", f"{len(photographs)}, none for {missing[0]}", "Add photographs."
        )
    entries, sources, chosen = [], [], []
    for file in usable:
        side = splits[groups[file]]
        for k in range(per_cutout):
            name = f"{names[file]}@{k}"
            ground = grounds[side][int(rng(seed, "ground", name).integers(len(grounds[side])))]
            label = Path(names[file]).parent.as_posix()
            target = {"label": label, "cutout": names[file], "photograph": ground.name}
            entries.append(Entry(name, groups[file], side, target))
            sources.append(file)
            chosen.append(ground)
    return Composites(entries, size, seed, skipped, sources, chosen)


def _unusable(picture: Image) -> str:
    if picture.mode != "RGBA" or np.asarray(picture.getchannel("A")).min() > 127:
        return "no transparency"
    box = picture.getchannel("A").getbbox()
    if box is None or max(box[2] - box[0], box[3] - box[1]) < SMALLEST:
        return f"smaller than {SMALLEST} pixels"
    return ""


def _grounds(photographs: Sequence[Path], seed: int) -> dict[str, list[Path]]:
    """Photographs by split; copies of one file go together."""
    files = sorted((Path(file) for file in photographs), key=lambda file: file.name)
    groups = [content(file) for file in files]
    splits = assign_splits(groups, BACKGROUND_SPLIT, seed)
    return {name: [file for file, group in zip(files, groups, strict=True) if splits[group] == name] for name in SPLITS}


def demo_pictures(cache: str | Path | None = None, size: int = 252, seed: int = 0) -> Composites | WheelPictures:
    """Pictures of the demo: composites where the cut-outs are on disk, else the few in the wheels, with a warning.

    Parameters
    ----------
    cache
        Folder into which the Debian packages ``tuxpaint-stamps-default`` and ``mate-backgrounds`` were unpacked
        (``dpkg -x``).
    size, seed
        Side of a picture; seed of splits and pictures.
    """
    stamps = None if cache is None else Path(cache) / STAMPS
    if stamps is not None and stamps.is_dir():
        nature = Path(cache or "") / NATURE
        photographs = (find_pictures(nature)[0] if nature.is_dir() else []) + wheel_files()
        return composites(stamps, photographs, size=size, seed=seed)
    pictures = wheel_pictures(size)
    warnings.warn(
        f"no cut-outs found{'' if cache is None else f' in {cache}'}: the {len(pictures)} pictures inside the wheels "
        f"hold only about {len(pictures) * (size // 14) ** 2:,} distinct patches of 14 pixels, too few to learn from. "
        "Pass a folder of your own pictures, or unpack tuxpaint-stamps-default as the Makefile does.",
        stacklevel=2,
    )
    return pictures
