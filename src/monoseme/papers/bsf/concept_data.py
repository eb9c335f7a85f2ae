"""Pictures whose concepts are known: cut-out objects of ten classes on photographs, and rendered scenes under a light.

Every picture has a split before it is made. Cut-outs, photographs and scenes are on one side each; a class is on all.
The light pictures show the same solids under lights from all around, and no featurizer is fitted on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.seeds import rng
from monoseme.store import ActivationStore, Composites, Entry, Sample, composites
from monoseme.store.pasting import NATURE, STAMPS
from monoseme.store.pictures import find_pictures, wheel_files
from monoseme.store.sources import SPLITS
from monoseme.worlds import Scenes, scenes
from monoseme.worlds.raycast import Scene

__all__ = [
    "CLASSES",
    "LIGHTS",
    "PATCHES",
    "Known",
    "Pictures",
    "class_of",
    "means",
    "pictures",
    "read",
    "scene_patches",
    "some",
]

SIZE, SIDE = 224, 16  # pixels, and tokens of a ViT with patches of 14
SPLIT = (0.5, 0.1, 0.4)  # of cut-outs
# folders of cut-outs that name a kind of thing; the pictures of all other folders are of none of them
CLASSES = (
    "animals/birds", "animals/fish", "animals/insects", "animals/mammals", "clothes", "food/fruit", "food/vegetables",
    "household/tools", "plants/flowers", "town/roadsigns",
)  # fmt: skip
SCENES = {"train": 110, "validation": 10, "test": 80}
LAYOUTS, HELD_LAYOUTS, LIGHTS, ELEVATION = 20, 6, 12, 35.0
PATCHES = ("object", "depth", "luminance", "shadow")  # what is known of a token; NaN where it is not


@dataclass(frozen=True, eq=False)
class Pictures:
    """All pictures, as a source to harvest; each is made once.

    Attributes
    ----------
    entries
        Stamps, then scenes, then lights.
    """

    entries: list[Entry] = field(repr=False)
    _stamps: Composites
    _scenes: list[tuple[Scenes, int]]
    _made: dict[int, tuple[np.ndarray, dict[str, np.ndarray]]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Sample:
        entry = self.entries[i]
        return Sample(entry.id, self._render(i)[0], entry.target, entry.group)

    def patches(self) -> dict[str, Float64[np.ndarray, "n T"]]:
        """What is known of every token of every picture; renders all."""
        found = {name: np.full((len(self), SIDE**2), np.nan) for name in PATCHES}
        for i in range(len(self)):
            for name, values in self._render(i)[1].items():
                found[name][i] = values
        return found

    def _render(self, i: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        if i not in self._made:
            first = i - len(self._stamps)
            if first < 0:
                stamp = self._stamps[i]
                assert stamp.mask is not None
                self._made[i] = stamp.image, {"object": means(stamp.mask)}
            else:
                of, number = self._scenes[first]
                scene = of[number]
                self._made[i] = scene.image, scene_patches(scene)
        return self._made[i]


def scene_patches(scene: Scene) -> dict[str, Float64[np.ndarray, " T"]]:
    """Log depth (NaN where a token sees some sky), luminance in linear light, and share in a cast shadow, by token."""
    sky = ~np.isfinite(scene.depth)
    depth = np.log(np.maximum(means(np.where(sky, 1, scene.depth)), 1e-9))
    light = _linear(scene.image) @ np.array([0.2126, 0.7152, 0.0722])
    return {
        "depth": np.where(means(sky) > 0, np.nan, depth),
        "luminance": means(light),
        "shadow": means(scene.shadow),
    }


def means(values: np.ndarray) -> Float64[np.ndarray, " T"]:
    """Mean over the pixels of every token, row by row."""
    side = values.shape[0] // SIDE
    cells = values.astype(np.float64).reshape(SIDE, side, SIDE, side)
    return cells.mean((1, 3)).ravel()


def pictures(cache: str | Path) -> Pictures:
    """Stamps and scenes. `cache` is the folder that ``make pictures`` fills."""
    folder = Path(cache)
    if not (folder / STAMPS).is_dir():
        raise refuse("pictures", "hold the cut-outs", f"none in {folder}", "Run make pictures.")
    grounds = (find_pictures(folder / NATURE)[0] if (folder / NATURE).is_dir() else []) + wheel_files()
    stamps = composites(folder / STAMPS, grounds, SIZE, per_cutout=1, split=SPLIT, strata=2)
    entries = [Entry(f"stamp/{one.id}", one.group, one.split, one.target) for one in stamps.entries]
    shown: list[tuple[Scenes, int]] = []
    drawn = scenes(sum(SCENES.values()), seed=0, size=SIZE)
    for i, split in enumerate(name for name, many in SCENES.items() for _ in range(many)):
        entries.append(Entry(f"scene/{i}", f"scene {i}", split, {"azimuth": float(drawn.azimuth[i])}))
        shown.append((drawn, i))
    turns = 360.0 * np.arange(LIGHTS) / LIGHTS
    for layout in range(LAYOUTS):
        lit = scenes(LIGHTS, seed=1, size=SIZE, azimuth=turns, elevation=ELEVATION, layout=layout)
        for j, turn in enumerate(turns):
            target = {"azimuth": float(turn), "layout": layout}
            entries.append(Entry(f"light/{layout}/{j}", f"layout {layout}", "test", target))
            shown.append((lit, j))
    return Pictures(entries, stamps, shown)


def class_of(label: str) -> str:
    """One of `CLASSES`, from the folder of a cut-out, or ``"other"``."""
    return next((name for name in CLASSES if f"{label}/".startswith(f"{name}/")), "other")


@dataclass(frozen=True, eq=False)
class Known:
    """Activations with all that is known of them; s samples of T tokens.

    Attributes
    ----------
    x
        (s, T, d) activations.
    kind
        (s,) "stamp", "scene" or "light".
    held
        (s,) whether a probe is judged on it.
    group
        (s,) what is not torn apart.
    label
        (s,) class of a stamp, "other", or "" for scenes.
    azimuth
        (s,) radians, NaN for stamps.
    patches
        (s, T) each, see `PATCHES`.
    """

    x: Float[Tensor, "s T d"]
    kind: np.ndarray
    held: Bool[np.ndarray, " s"]
    group: Int64[np.ndarray, " s"]
    label: np.ndarray
    azimuth: Float64[np.ndarray, " s"]
    patches: dict[str, Float64[np.ndarray, "s T"]]


def read(store: ActivationStore, patches: Path) -> Known:
    """Join a harvest of `pictures` with its patches, a file of `numpy.savez` with their ids."""
    with np.load(patches, allow_pickle=False) as file:
        place = {str(name): i for i, name in enumerate(file["ids"])}
        order = np.array([place[name] for name in store.ids])
        known = {name: file[name][order] for name in PATCHES}
    x = torch.zeros(len(store.ids), SIDE**2, store.d_in)
    for split in SPLITS:
        for batch in store.rows(split).in_order(16_384):
            x[batch.sample.long(), batch.position.long()] = batch.x.float()
    targets: list[Any] = [store.targets[name] for name in store.ids]
    kind = np.array([name.split("/")[0] for name in store.ids])
    test = np.isin(store.ids, store.samples("test"))
    # light pictures have a split of their own: the last layouts are held out
    late = np.array([target.get("layout", -1) >= LAYOUTS - HELD_LAYOUTS for target in targets])
    return Known(
        x,
        kind,
        np.where(kind == "light", late, test),
        store.groups.numpy(),
        np.array([class_of(target["label"]) if "label" in target else "" for target in targets]),
        np.radians([target.get("azimuth", np.nan) for target in targets]),
        known,
    )


def some(known: Known, kind: str, many: int, seed: int = 0) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """`many` tokens of every sample of a kind, drawn: their samples and positions."""
    samples = np.flatnonzero(known.kind == kind)
    tokens = known.x.shape[1]
    drawn = np.stack([rng(seed, "tokens", kind, int(i)).permutation(tokens)[:many] for i in samples])
    return np.repeat(samples, drawn.shape[1]), drawn.ravel()


def _linear(image: np.ndarray) -> np.ndarray:
    """SRGB bytes to linear light."""
    v = image / 255.0
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
