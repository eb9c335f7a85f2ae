"""Who says whether a picture still shows the thing: one interface, `protocol`; every judge in its own file."""

from monoseme.composition.judges.cascade import CascadeJudge, band
from monoseme.composition.judges.endpoint import EndpointJudge, EndpointSettings
from monoseme.composition.judges.features import FeatureJudge
from monoseme.composition.judges.local import LocalJudge, open_local
from monoseme.composition.judges.person import PersonJudge, contact_sheet
from monoseme.composition.judges.pixels import PixelJudge
from monoseme.composition.judges.protocol import Judge, Verdict
from monoseme.composition.judges.replay import ReplayJudge

__all__ = [
    "CascadeJudge",
    "EndpointJudge",
    "EndpointSettings",
    "FeatureJudge",
    "Judge",
    "LocalJudge",
    "PersonJudge",
    "PixelJudge",
    "ReplayJudge",
    "Verdict",
    "band",
    "contact_sheet",
    "open_local",
]
