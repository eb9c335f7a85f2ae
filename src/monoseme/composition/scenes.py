"""Our own pictures, put together by hand, with the network that makes them known and its parts named.

They stand where others have bred networks (Picbreeder's are not ours to ship). y runs downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxtyping import Bool
from torch import Tensor

from monoseme.composition.canvas import coordinates
from monoseme.composition.genome import Genome
from monoseme.composition.sketch import Sketch
from monoseme.core.errors import closest, refuse

__all__ = ["SCENES", "parts", "scene"]


def face() -> Genome:
    """A face in ink: head, eyes, nose, a mouth that smiles."""
    s = Sketch()
    m = s.mirror("mirror", 1.3)
    head = s.blob("head", (0, 0.0), (0.72, 0.86), "head")
    eyes = s.twins("eyes", m, (0.3, -0.22), (0.13, 0.12), "eye")
    pupils = s.twins("pupils", m, (0.3, -0.2), (0.05, 0.05), "pupil")
    nose = s.blob("nose", (0, 0.1), (0.06, 0.16), "nose")
    across = s.bump("mouth across", {"x": 1.0}, 0, 0.36, {"x": "mouth width"})
    curve = {"y": 1.0, m.node: -0.12}  # the mirror bends it: corners up
    along = s.bump("mouth along", curve, 0.36, 0.075, {"y": "mouth opening", m.node: "smile"})
    mouth = s.region("mouth", across, along, "mouth size")
    dark = {head: 0.42, eyes: -0.36, pupils: 0.3, nose: -0.16, mouth: -0.4}
    s.out("ink", {**dark, "bias": 0.42 - 0.36 + 0.3 - 0.16 - 0.4}, {head: "skin", eyes: "eye darkness"})
    return s.genome()


def butterfly() -> Genome:
    """A butterfly in colour: four wings from two regions, spots, a body."""
    s = Sketch()
    m = s.mirror("mirror", 1.1)
    upper = s.twins("upper wings", m, (0.42, -0.3), (0.36, 0.38), "upper wing")
    lower = s.twins("lower wings", m, (0.34, 0.38), (0.26, 0.32), "lower wing")
    spots = s.twins("spots", m, (0.48, -0.34), (0.13, 0.13), "spot")
    body = s.blob("body", (0, 0.02), (0.065, 0.6), "body")
    wings = s.node("wings", "sigmoid", {upper: 3.0, lower: 3.0, "bias": 4.0}, {upper: "wing area"})
    s.out("hue", {"y": 0.1, spots: 0.2, "bias": 0.3}, {"bias": "colour", "y": "colour from top to bottom"})
    s.out("saturation", {wings: 0.4, body: -0.45, "bias": 0.0})
    s.out("brightness", {wings: -0.06, body: -0.38, spots: 0.0, "bias": 0.5}, {body: "body darkness"})
    return s.genome()


def apple() -> Genome:
    """An apple in colour: a red body with a dent and a light, a stem, a leaf."""
    s = Sketch()
    m = s.mirror("mirror", 1.4)
    across = s.bump("body across", {"x": 1.0}, 0, 0.6, {"x": "apple width"})
    dented = {"y": 1.0, m.node: -0.1}  # lower in the middle: the dent
    along = s.bump("body along", dented, 0.2, 0.55, {"y": "apple height", m.node: "dent"})
    body = s.region("body", across, along, "apple size")
    light = s.blob("light", (-0.26, 0.0), (0.1, 0.13), "light")
    stem = s.bump("stem across", {"x": 1.0, "y": 0.25}, -0.1, 0.04, {"x": "stem width", "y": "stem lean"})
    stem = s.region("stem", stem, s.bump("stem along", {"y": 1.0}, -0.5, 0.17, {"y": "stem length"}))
    leaf = s.bump("leaf across", {"x": 1.0, "y": 0.7}, -0.13, 0.2, {"x": "leaf length"})
    leaf = s.region("leaf", leaf, s.bump("leaf along", {"x": 0.5, "y": 1.0}, -0.48, 0.09, {"y": "leaf width"}))
    s.out("hue", {leaf: 0.16, "bias": 0.16}, {"bias": "colour"})
    s.out("saturation", {body: 0.45, leaf: 0.4, light: -0.4, stem: 0.25, "bias": 0.7})
    s.out("brightness", {body: -0.06, stem: -0.3, leaf: -0.14, light: 0.05, "bias": 0.43})
    return s.genome()


def house() -> Genome:
    """Two objects: a house with a roof and a door, and a sun."""
    s = Sketch()
    sides = [
        s.edge("wall left", {"x": 1.0}, -0.6, {"bias": "house width"}),
        s.edge("wall right", {"x": -1.0}, -0.1, {"bias": "house width"}),
        s.edge("wall top", {"y": 1.0}, 0.05),
        s.edge("wall bottom", {"y": -1.0}, -0.8, {"bias": "house height"}),
    ]
    wall = s.all_of("wall", sides)
    slopes = [
        s.edge("roof left", {"x": 0.8, "y": 0.9}, -0.64, {"x": "left slope"}),
        s.edge("roof right", {"x": -0.8, "y": 0.9}, -0.24, {"x": "right slope"}),
        s.edge("eaves", {"y": -1.0}, -0.05, {"bias": "roof height"}),
    ]
    roof = s.all_of("roof", slopes)
    door = s.blob("door", (-0.25, 0.6), (0.1, 0.2), "door")
    sun = s.blob("sun", (0.55, -0.55), (0.24, 0.24), "sun")
    # hue 0.6 of the sky, where all are -1; 0.14 of the sun, 0 of the roof, 0.08 of the wall
    s.out("hue", {sun: 0.27, roof: 0.2, wall: 0.24, "bias": -0.4 + 0.27 + 0.2 + 0.24}, {sun: "colour of the sun"})
    s.out("saturation", {sun: 0.2, wall: 0.05, roof: 0.15, "bias": 0.35 + 0.2 + 0.05 + 0.15})
    s.out("brightness", {wall: -0.04, roof: -0.16, door: -0.2, sun: 0.03, "bias": 0.9 - 0.04 - 0.16 - 0.2 + 0.03})
    return s.genome()


SCENES: dict[str, Callable[[], Genome]] = {"face": face, "butterfly": butterfly, "apple": apple, "house": house}

PARTS: Mapping[str, tuple[str, ...]] = {
    "face": ("head", "eyes", "pupils", "nose", "mouth"),
    "butterfly": ("upper wings", "lower wings", "spots", "body"),
    "apple": ("body", "light", "stem", "leaf"),
    "house": ("wall", "roof", "door", "sun"),
}


def scene(name: str) -> Genome:
    """Return a scene by name."""
    if name not in SCENES:
        raise refuse("name", f"be one of {', '.join(SCENES)}", repr(name), closest(name, SCENES))
    return SCENES[name]()


def parts(name: str, size: int) -> dict[str, Bool[Tensor, "size size"]]:
    """Where the named parts of a scene are: pixels at which a region's node is above 0."""
    values = scene(name).values(coordinates(size))
    return {part: (values[part] > 0).reshape(size, size) for part in PARTS[name]}
