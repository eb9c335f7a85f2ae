"""Numbers about a fitted featurizer, on held-out samples."""

from monoseme.evaluation.evaluate import Evaluation as Evaluation
from monoseme.evaluation.evaluate import evaluate as evaluate
