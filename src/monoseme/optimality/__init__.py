"""Conditions that every optimal sparse dictionary obeys (arXiv 2606.02385), turned into certificates.

Arrays in, certificates out; any dictionary, anybody's. Reading order: `latents`, `reading`, `columns`; `hull`,
`deciding`, `slack`, `strain`, `conditions`, `gains`; `certify`, `certification`; `lasso`, `wide`, `rank_one`, `solve`;
`repair`, `hypothesis`.
"""

from monoseme.optimality.certification import Certification as Certification
from monoseme.optimality.certification import FeatureCertificate as FeatureCertificate
from monoseme.optimality.certify import CertifySettings as CertifySettings
from monoseme.optimality.hypothesis import Hypothesis as Hypothesis
from monoseme.optimality.hypothesis import hypothesis as hypothesis
from monoseme.optimality.latents import Latents as Latents
from monoseme.optimality.rank_one import RankOne as RankOne
from monoseme.optimality.rank_one import rank_one as rank_one
from monoseme.optimality.repair import Repair as Repair
from monoseme.optimality.repair import repair as repair
from monoseme.optimality.solve import Solution as Solution
from monoseme.optimality.solve import solve as solve
from monoseme.optimality.wide import WideLimit as WideLimit
from monoseme.optimality.wide import cover as cover
from monoseme.optimality.wide import wide_limit as wide_limit
