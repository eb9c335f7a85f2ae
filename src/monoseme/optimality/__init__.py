"""Conditions that every optimal sparse dictionary obeys (arXiv 2606.02385), turned into certificates.

Arrays in, certificates out; any dictionary, anybody's. Reading order: `latents`, `certification`, then one file a
condition or a bound.
"""

from monoseme.optimality.certification import Certification as Certification
from monoseme.optimality.certification import FeatureCertificate as FeatureCertificate
from monoseme.optimality.latents import Latents as Latents
