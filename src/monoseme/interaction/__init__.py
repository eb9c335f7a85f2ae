"""How the parts of a network share a fixed budget: average gradient outer products, energies, shapes.

Reading order: `energies`, `factors`, `population`; `agop`, `engine`, `conventions`, `basis`, `nfa`; `shapes`, `tasks`,
`training`, `sweeping`; what reads a sweep: `shape_table`, `optimum`, `correlation`, `advice`; `compare` for published
models.
"""

from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.advice import Advice, recommend_shape
from monoseme.interaction.agop import agop
from monoseme.interaction.basis import BlockEnergies, block_energies
from monoseme.interaction.compare import ModelRow, compare_models, read_models, small_llms
from monoseme.interaction.conventions import CONVENTIONS, agop_as
from monoseme.interaction.correlation import Correlation, correlate, correlations
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.how import How
from monoseme.interaction.matrix import Agop
from monoseme.interaction.network_energies import Measured, network_energies
from monoseme.interaction.nfa import NFA, nfa
from monoseme.interaction.optimum import Optimum, optimum
from monoseme.interaction.population import population_energies
from monoseme.interaction.shape_table import ShapeTable
from monoseme.interaction.shapes import ShapeRow, shapes
from monoseme.interaction.sweeping import Plan
from monoseme.interaction.sweeping import shape_sweep as sweep
from monoseme.interaction.tasks import Task, digits_task, narma_task, pictures_task, text_task
from monoseme.interaction.training import Training

__all__ = [
    "CONVENTIONS",
    "NFA",
    "Advice",
    "Agop",
    "BlockEnergies",
    "Correlation",
    "FactorSums",
    "How",
    "Measured",
    "ModelRow",
    "Optimum",
    "Plan",
    "ShapeRow",
    "ShapeTable",
    "Task",
    "Training",
    "agop",
    "agop_as",
    "block_energies",
    "compare_models",
    "correlate",
    "correlations",
    "digits_task",
    "narma_task",
    "network_energies",
    "nfa",
    "optima",
    "optimum",
    "pictures_task",
    "population_energies",
    "read_models",
    "recommend_shape",
    "shapes",
    "small_llms",
    "stability",
    "sweep",
    "text_task",
]
