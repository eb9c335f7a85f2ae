"""Numbers about a fitted featurizer, on held-out samples."""

from monoseme.evaluation.evaluate import Evaluation as Evaluation
from monoseme.evaluation.evaluate import evaluate as evaluate
from monoseme.evaluation.gallery import gallery as gallery
from monoseme.evaluation.recovery import Recovery as Recovery
from monoseme.evaluation.recovery import recover as recover
from monoseme.evaluation.splice import SpliceBatch as SpliceBatch
from monoseme.evaluation.splice import splice as splice
from monoseme.evaluation.stability import Stability as Stability
from monoseme.evaluation.stability import stability as stability
