"""Networks whose parts have names: pattern-producing networks, what a changed weight does to a picture, and pruning.

Reading order: `activations`, `canvas`, `network`; `genome`, `layerize`, `sketch`, `scenes`; `incremental`, `moves`,
`judges`, `emc2`, `drift`, `agreement`; `painting`, `network_file`, `pruning`; `png`, `depth`, `flatness`; `welch`,
`graph_sparsity`, `volume`, `monosemantic`, `fractured`.
"""

from monoseme.composition import judges
from monoseme.composition.agreement import agreement
from monoseme.composition.depth import fit_depth, predict_depth
from monoseme.composition.drift import drift
from monoseme.composition.emc2 import Emc2, emc2
from monoseme.composition.film import map_pictures, principal_maps, sweep_weight
from monoseme.composition.flatness import flatness
from monoseme.composition.fractured import effective_dimension, redundancy, roughness
from monoseme.composition.genome import Genome, Link, Node
from monoseme.composition.graph_sparsity import graph_sparsity
from monoseme.composition.layerize import layerize
from monoseme.composition.monosemantic import match_parts
from monoseme.composition.moves import Delta
from monoseme.composition.network import ImageNetwork
from monoseme.composition.network_file import load_network, save_network
from monoseme.composition.painting import fit_image
from monoseme.composition.png import png_ratio
from monoseme.composition.pruning import Pruned, prune
from monoseme.composition.scenes import SCENES, parts, scene
from monoseme.composition.volume import monte_carlo_ratio, volume_ratio
from monoseme.composition.welch import interference, welch_bound
from monoseme.composition.xml_genome import load_genome, save_genome

__all__ = [
    "SCENES",
    "Delta",
    "Emc2",
    "Genome",
    "ImageNetwork",
    "Link",
    "Node",
    "Pruned",
    "agreement",
    "drift",
    "effective_dimension",
    "emc2",
    "fit_depth",
    "fit_image",
    "flatness",
    "graph_sparsity",
    "interference",
    "judges",
    "layerize",
    "load_genome",
    "load_network",
    "map_pictures",
    "match_parts",
    "monte_carlo_ratio",
    "parts",
    "png_ratio",
    "predict_depth",
    "principal_maps",
    "prune",
    "redundancy",
    "roughness",
    "save_genome",
    "save_network",
    "scene",
    "sweep_weight",
    "volume_ratio",
    "welch_bound",
]
