"""Moving a model along a block: a map of the block's codes, walks on it, and interventions with what they cost.

Reading order: `topology`, `maps`, `walks`; `intervene`, `effects`; `fourier`, `picture_of`.
"""

from monoseme.steering.effects import Effects, effects, matched_strength
from monoseme.steering.intervene import Direction, steer
from monoseme.steering.maps import ConceptMap, fit_map
from monoseme.steering.picture_of import Painting, PictureOf, picture_of
from monoseme.steering.topology import Topology, find_topology
from monoseme.steering.walks import around, walk

__all__ = [
    "ConceptMap",
    "Direction",
    "Effects",
    "Painting",
    "PictureOf",
    "Topology",
    "around",
    "effects",
    "find_topology",
    "fit_map",
    "matched_strength",
    "picture_of",
    "steer",
    "walk",
]
