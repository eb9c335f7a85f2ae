"""Pruning of any network of linear and convolution layers, by weights or by neurons, and its controls.

Reading order: `layers`, `scores`, `victims`, `prune`. A method is one function and one line in `WEIGHTS` or `NEURONS`.
"""

from monoseme.composition.pruning.compact import compact
from monoseme.composition.pruning.prune import METHODS, Pruned, Round, prune, shuffled

__all__ = ["METHODS", "Pruned", "Round", "compact", "prune", "shuffled"]
