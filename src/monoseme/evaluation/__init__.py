"""Numbers about a fitted featurizer, on held-out samples."""

from monoseme.evaluation.description_length import DescriptionLength as DescriptionLength
from monoseme.evaluation.description_length import description_length as description_length
from monoseme.evaluation.dimension import Dimension as Dimension
from monoseme.evaluation.dimension import dimension as dimension
from monoseme.evaluation.evaluate import Evaluation as Evaluation
from monoseme.evaluation.evaluate import evaluate as evaluate
from monoseme.evaluation.fragmentation import cover as cover
from monoseme.evaluation.fragmentation import fragmentation as fragmentation
from monoseme.evaluation.fragmentation import phase_check as phase_check
from monoseme.evaluation.gallery import gallery as gallery
from monoseme.evaluation.harmonics import harmonics as harmonics
from monoseme.evaluation.one_block import one_block_r2 as one_block_r2
from monoseme.evaluation.one_concept import one_concept_f1 as one_concept_f1
from monoseme.evaluation.probe_recovery import probe_recovery as probe_recovery
from monoseme.evaluation.probing import probe as probe
from monoseme.evaluation.recovery import Recovery as Recovery
from monoseme.evaluation.recovery import recover as recover
from monoseme.evaluation.regrouped import Regrouped as Regrouped
from monoseme.evaluation.regrouped import shuffled_blocks as shuffled_blocks
from monoseme.evaluation.smoothness import Smoothness as Smoothness
from monoseme.evaluation.smoothness import smoothness as smoothness
from monoseme.evaluation.splice import SpliceBatch as SpliceBatch
from monoseme.evaluation.splice import splice as splice
from monoseme.evaluation.stability import Stability as Stability
from monoseme.evaluation.stability import stability as stability
