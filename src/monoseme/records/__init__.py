"""What was claimed, what was measured, under which rule: and the page contract."""

from monoseme.records.claims import Claims as Claims
from monoseme.records.reproduce import Reproduction as Reproduction
from monoseme.records.reproduce import reproduce as reproduce
from monoseme.records.run import Comparison as Comparison
from monoseme.records.run import Curve as Curve
from monoseme.records.run import Histogram as Histogram
from monoseme.records.run import OutcomeGroup as OutcomeGroup
from monoseme.records.run import RunRecord as RunRecord
from monoseme.records.run import SampleView as SampleView

__all__ = [
    "Claims",
    "Comparison",
    "Curve",
    "Histogram",
    "OutcomeGroup",
    "Reproduction",
    "RunRecord",
    "SampleView",
    "reproduce",
]
