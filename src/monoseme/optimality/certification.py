"""What a certification says: one verdict a feature, each with its witness, and the numbers of the whole dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from monoseme.core.outcome import Outcome, plural

__all__ = ["Certification", "FeatureCertificate", "Verdict", "Witness"]

Verdict = Literal["stable", "unstable", "unknown"]
# verdicts in the order in which they are counted, and the word for each
COUNTED: tuple[tuple[Verdict, str], ...] = (("unstable", "unstable"), ("stable", "stable"), ("unknown", "not known"))


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


@dataclass(frozen=True, eq=False, repr=False)
class Certification:
    """Verdicts on a dictionary. ``print(c.table())`` shows them, ``ms.page(c, out=...)`` draws them.

    Attributes
    ----------
    features
        One certificate a feature, in order.
    numbers
        Outcomes of the whole: shares of the verdicts, loss, removable share, L0, what share is decided.
    kkt
        Audit of the first-order conditions K1-K3 by name: how far codes and atoms are from optimal.
    lam
        λ of E‖zW + b - x‖² + 2λ‖z‖₁ used for every number in loss units.
    about
        ``"rows"``: verdicts hold for exactly these rows. ``"population"``: a noise floor and a check on held-out rows
        stand between a sample and a verdict.
    notes
        What was changed on the way (atoms rescaled, ...), and what the verdict does not mean.
    provenance
        How many rows, how many held out, which codes.
    atoms
        (K, d) unit atoms of the features, for the chart of pairs; ``None`` for blocks of several dimensions.
    """

    features: tuple[FeatureCertificate, ...]
    numbers: Mapping[str, Outcome]
    kkt: Mapping[str, Outcome]
    lam: float
    about: Literal["rows", "population"]
    learned_bias: bool
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    atoms: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Certification({self.summary}; lam {self.lam:.6g}, about {self.subject})"

    @property
    def loss(self) -> Outcome:
        """E‖zW + b - x‖² + 2λ‖z‖₁ of the dictionary as given."""
        return self.numbers["loss"]

    @property
    def wide_bound(self) -> Outcome:
        """Loss that no dictionary of any width can go below on these rows."""
        return self.numbers["wide_bound"]

    @property
    def gap(self) -> Outcome:
        """Loss above `wide_bound`: what infinitely many atoms could still win."""
        return self.numbers["gap"]

    @property
    def summary(self) -> str:
        """Counts of the verdicts, a few words."""
        total = len(self.features)
        counts = ", ".join(f"{self.count(verdict):,} {word}" for verdict, word in COUNTED)
        return f"{total:,} {plural(total, 'features')}: {counts}"

    @property
    def subject(self) -> str:
        """What the verdicts are about, with the number of rows."""
        rows, held = (self.provenance.get(name) for name in ("rows", "held_out_rows"))
        if self.about == "rows":
            return "exactly these rows" if rows is None else f"exactly these {rows:,} {plural(rows, 'rows')}"
        if rows is None or held is None:
            return "the population of rows"
        return f"the population of rows (certified on {rows:,}, checked on {held:,} held out)"

    def count(self, verdict: Verdict) -> int:
        """How many features have that verdict."""
        return sum(feature.verdict == verdict for feature in self.features)

    def reasons(self) -> dict[str, int]:
        """Why features are unknown: how many for each reason, most frequent first.

        What a reason says behind a colon is about one feature, and left out here.
        """
        why = Counter(f.why.partition(":")[0] for f in self.features if f.verdict == "unknown")
        return dict(why.most_common())

    def table(self, most: int = 20) -> str:
        """Text: verdicts and what they are about, caveats, numbers, the unstable features of largest removable loss."""
        bias = "learned" if self.learned_bias else "fixed"
        lines = [self.summary, *(f"  not known: {n:,} because {why}" for why, n in self.reasons().items())]
        lines += [f"about {self.subject}; λ {self.lam:.6g}; {bias} bias", *(f"note: {note}" for note in self.notes)]
        return "\n".join([*lines, "", *self._numbers(), "", *self._worst(most)])

    def _numbers(self) -> list[str]:
        """Aligned: name, value with unit, and what it is."""
        shown = [(o.name.replace("_", " "), str(o), o.note if o.known else "") for o in self._outcomes()]
        wide = [max((len(row[i]) for row in shown), default=0) for i in (0, 1)]
        return [f"{name:{wide[0]}}  {value:{wide[1]}}  {note}".rstrip() for name, value, note in shown]

    def _outcomes(self) -> tuple[Outcome, ...]:
        return (*self.numbers.values(), *self.kkt.values())

    def _worst(self, most: int) -> list[str]:
        bad = sorted((f for f in self.features if f.verdict == "unstable"), key=lambda f: -f.removable_loss)
        if not bad:
            return ["no feature is proven unstable"]
        shown = bad[: max(most, 0)]
        lines = [f"{len(shown):,} of {len(bad):,} unstable, by the loss that is removable for certain (‖x‖²):"]
        lines.append("removable  strain    density  feature")
        return lines + [f"{f.removable_loss:9.2e}  {f.strain:8.3g}  {f.density:7.4f}  {f.words}" for f in shown]

    def save(self, folder: Path | str) -> Path:
        """Keep all of it, proofs included, as certification.json and certification.safetensors in `folder`.

        Raises
        ------
        UserError
            When a certification is kept there already; nothing is changed then.
        """
        from monoseme.optimality.keeping import save

        return save(self, folder)

    @classmethod
    def load(cls, folder: Path | str) -> Certification:
        """Read what `save` kept. Anything damaged or foreign is refused in one line that names the file."""
        from monoseme.optimality.keeping import load

        return load(folder)
