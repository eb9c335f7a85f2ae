"""What was claimed, what was measured, under which rule: and the page contract."""

from monoseme.records.certificates import CertificateSettings as CertificateSettings
from monoseme.records.certificates import CertificateTable as CertificateTable
from monoseme.records.certificates import FeatureColumns as FeatureColumns
from monoseme.records.certificates import PairPoints as PairPoints
from monoseme.records.claims import Claims as Claims
from monoseme.records.film import FilmStrip as FilmStrip
from monoseme.records.heat import Heat
from monoseme.records.reproduce import Reproduction as Reproduction
from monoseme.records.reproduce import reproduce as reproduce
from monoseme.records.run import Comparison as Comparison
from monoseme.records.run import Curve as Curve
from monoseme.records.run import Histogram as Histogram
from monoseme.records.run import OutcomeGroup as OutcomeGroup
from monoseme.records.run import RunRecord as RunRecord
from monoseme.records.run import SampleView as SampleView
from monoseme.records.scatter import Scatter as Scatter
from monoseme.records.scatter import ScatterPoint as ScatterPoint

__all__ = [
    "CertificateSettings",
    "CertificateTable",
    "Claims",
    "Comparison",
    "Curve",
    "FeatureColumns",
    "FilmStrip",
    "Heat",
    "Histogram",
    "OutcomeGroup",
    "PairPoints",
    "Reproduction",
    "RunRecord",
    "SampleView",
    "Scatter",
    "ScatterPoint",
    "reproduce",
]
