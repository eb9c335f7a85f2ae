"""What a certification says: one verdict a feature, each with its witness, and the numbers of the whole dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from monoseme.core.outcome import Outcome

__all__ = ["Certification", "FeatureCertificate", "Verdict", "Witness"]

Verdict = Literal["stable", "unstable", "unknown"]


@dataclass(frozen=True, eq=False)
class Witness:
    """Proof of a verdict, to be checked by anybody in float64.

    For ``unstable``: β over other latents (`index`, `weight`) and β₀ (`offset`), with which moving atoms and codes
    leaves every reconstruction as it is and lowers the loss. For ``stable``: weights a ≥ 0 (`weight`) on rows
    (`index`) on which the feature is off, whose codes average to the cosines; `offset` is the sum of equal weights on
    all such rows, which come on top. ``tilt``: the weights are exp(⟨β, z⟩ + `offset`) on all rows on which the feature
    is off, with β over latents (`index`, `weight`). ``slack``: the weights are (1 - ⟨w, r⟩/λ)₊ on these rows, `offset`
    is their sum.
    ``move``, for an unstable block: `weight` holds the map B_h (b, b) of every partner, one under another, then b₀, a
    row (see `optimality.blocks`).
    """

    kind: Literal["beta", "rows", "tilt", "slack", "move"]
    index: np.ndarray
    weight: np.ndarray
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class FeatureCertificate:
    """What is known of one feature.

    Attributes
    ----------
    feature
        Its number. A signed scalar g counts as two: 2g is +w, 2g + 1 is -w.
    block, side
        The block it belongs to, and which half of it: +1, -1, or 0 for a block of several dimensions.
    verdict
        ``stable``, ``unstable`` or ``unknown``; never a guess.
    why
        The reason in a few words.
    removable_loss
        Loss that the witness removes for certain (lower is better; 0 unless unstable): λ(2eγ - e²S), units of ‖x‖².
    violation_lower, violation_upper
        Bounds of D_j, the distance to the hull (cone) of condition (H), in √(units of the code).
    partners
        Latents that the witness moves, largest share first: who absorbs whom.
    witness, step
        The proof; ``None`` for ``unknown``. For an unstable feature, the e at which `removable_loss` is promised.
    strain
        Lower bound of κ_j, how many λ below zero the residual must reach on some row where the feature is off. At
        least 1; infinite for a strict hierarchy.
    strain_partner
        The latent of that bound; -1 when it is the feature's own density.
    density
        Share of rows on which it is active.
    antipode_gain
        Loss that adding the atom -w removes at least, codes of the others frozen; 0 when none.
    split_gain
        Loss that two rotated copies of the atom remove at least; 0 when none.
    """

    feature: int
    block: int
    side: int
    verdict: Verdict
    why: str
    removable_loss: float
    violation_lower: float
    violation_upper: float
    partners: tuple[int, ...] = ()
    witness: Witness | None = None
    step: float = 0.0
    strain: float = 1.0
    strain_partner: int = -1
    density: float = 0.0
    antipode_gain: float = 0.0
    split_gain: float = 0.0

    @property
    def beta(self) -> Mapping[int, float]:
        """β of the witness by latent; empty unless unstable."""
        if self.witness is None or self.witness.kind != "beta":
            return {}
        pairs = zip(self.witness.index.tolist(), self.witness.weight.tolist(), strict=True)
        return {int(k): float(v) for k, v in pairs}

    @property
    def words(self) -> str:
        """The verdict as a sentence: "feature 12 is absorbed by 873: …"."""
        return f"feature {self.feature} is {self.verdict}: {self.why}"


@dataclass(frozen=True, eq=False)
class Certification:
    """Verdicts on a dictionary.

    Attributes
    ----------
    features
        One certificate a feature, in order.
    numbers
        Outcomes of the whole: shares of the verdicts, loss, removable share, L0, what share is decided.
    kkt
        Audit of the first-order conditions K1-K3 by name.
    lam
        λ of E‖Wz + b - x‖² + 2λ‖z‖₁ used for every number in loss units.
    about
        ``"rows"``: verdicts hold for exactly these rows. ``"population"``: a noise floor and a check on held-out rows
        stand between a sample and a verdict.
    notes
        What was changed on the way (atoms rescaled, ...), and what the verdict does not mean.
    """

    features: tuple[FeatureCertificate, ...]
    numbers: Mapping[str, Outcome]
    kkt: Mapping[str, Outcome]
    lam: float
    about: Literal["rows", "population"]
    learned_bias: bool
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> Outcome:
        """E‖Wz + b - x‖² + 2λ‖z‖₁ of the dictionary as given."""
        return self.numbers["loss"]

    @property
    def wide_bound(self) -> Outcome:
        """Loss that no dictionary of any width can go below on these rows."""
        return self.numbers["wide_bound"]

    @property
    def gap(self) -> Outcome:
        """Loss above `wide_bound`: what infinitely many atoms could still win."""
        return self.numbers["gap"]

    def count(self, verdict: Verdict) -> int:
        """How many features have that verdict."""
        return sum(feature.verdict == verdict for feature in self.features)

    def table(self, most: int = 20) -> str:
        """Text: the numbers, then the features with the largest removable loss."""
        lines = [f"{outcome.name:18} {outcome}" for outcome in (*self.numbers.values(), *self.kkt.values())]
        worst = sorted(self.features, key=lambda f: -f.removable_loss)[:most]
        lines += ["", "removable  strain    density  feature"]
        lines += [
            f"{f.removable_loss:9.2e}  {f.strain:8.3g}  {f.density:7.4f}  {f.words}" for f in worst if f.removable_loss
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
