"""`Agop`: an average gradient outer product with what is known of how it was made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.interaction import energies
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.kept import KeptFactors
from monoseme.interaction.population import ENERGIES, population_energies

__all__ = ["About", "Agop"]


@dataclass(frozen=True)
class About:
    """How an AGOP was made.

    Attributes
    ----------
    at, side, of, view, positions
        As in `agop`, names resolved.
    width, tokens, outputs
        D, T and K; K counts outputs also where only probes of them were used.
    n
        Samples.
    method
        "vjp" or "jvp".
    probes, law, seed
        None, "" and None for an exact one.
    passes
        Cost of the pass that gave this and all places asked with it, in forward passes of every sample, by formula:
        vjp K + 1 or m + 1, jvp 2 D + 1 a place, sketched output side 3 m.
    chunk
        Samples at once.
    formed
        Whether the matrix was formed; else its factors are kept.
    notes
        What a reader should know: a mode changed for the pass, a method fallen back from.
    """

    at: str
    side: str
    of: str
    view: str
    positions: str
    width: int
    tokens: int
    outputs: int
    n: int
    method: str
    probes: int | None
    law: str
    seed: int | None
    passes: int
    chunk: int
    formed: bool
    notes: tuple[str, ...] = ()


class Agop:
    """G and its energies.

    Each energy is of the given samples by default: the plug-in value of `matrix`, which is too large for AOFE and the
    ratio when samples or probes are few. With ``population=True`` it is the unbiased estimate for the distribution
    that the samples come from, with a 95 % interval.

    Parameters
    ----------
    sums
        Sums over samples.
    about
        How they were made.
    """

    def __init__(self, sums: FactorSums | KeptFactors, about: About) -> None:
        self.sums, self.about = sums, about

    def __repr__(self) -> str:
        a = self.about
        kind = "exact" if a.probes is None else f"{a.probes} probes"
        return f"Agop({a.at!r}, side={a.side!r}, of={a.of!r}, D={a.width}, n={a.n}, {kind})"

    @cached_property
    def matrix(self) -> Float64[np.ndarray, "D D"]:
        """G, symmetric positive semi-definite, in float64."""
        if isinstance(self.sums, KeptFactors):
            got = f"width {self.about.width:,}"
            raise refuse("matrix", "fit into the memory given", got, "Ask for energies, or raise memory in How.")
        return self.sums.matrix()

    def trace(self, population: bool = False) -> Outcome:
        """tr(G), the mean squared norm of the gradients."""
        return self.energy("trace", population)

    def aofe(self, population: bool = False) -> Outcome:
        """‖G‖_F² - Σ G_ii², squared energy off the diagonal; grows with the fourth power of the outputs' scale."""
        return self.energy("aofe", population)

    def aofe_ratio(self, population: bool = False) -> Outcome:
        """AOFE ÷ ‖G‖_F²; read it beside `rotation_baseline`."""
        return self.energy("aofe_ratio", population)

    def mean_cos2(self, population: bool = False) -> Outcome:
        """Weighted mean of squared cosines between the coordinates' gradients."""
        return self.energy("mean_cos2", population)

    def normalised_aofe(self, population: bool = False) -> Outcome:
        """AOFE ÷ tr(G)²: free of the outputs' scale."""
        return self.energy("normalised_aofe", population)

    def participation_ratio(self, population: bool = False) -> Outcome:
        """tr(G)² ÷ ‖G‖_F²: directions that share the gradients."""
        return self.energy("participation_ratio", population)

    def rotation_baseline(self, population: bool = False) -> Outcome:
        """AOFE-ratio that a random orthonormal basis would show."""
        return self.energy("rotation_baseline", population)

    def excess(self, population: bool = False) -> Outcome:
        """AOFE-ratio above `rotation_baseline`."""
        return self.energy("excess", population)

    def effective_rank(self) -> Outcome:
        """Exponential of the spectrum's entropy, of the given samples."""
        p = self.spectrum()
        p = p[p > 0] / max(p.sum(), 1e-300)
        value = float(np.exp(-(p * np.log(p)).sum())) if len(p) else 0.0
        return self._outcome(Outcome("effective_rank", value, "directions", note=self._how(False)))

    def spectrum(self) -> Float64[np.ndarray, " r"]:
        """Eigenvalues of G, largest first; where only factors are kept, those that can differ from zero."""
        return self.sums.spectrum() if isinstance(self.sums, KeptFactors) else energies.spectrum(self.matrix)

    def energy(self, name: str, population: bool = False) -> Outcome:
        """One energy by name."""
        if name not in ENERGIES:
            raise refuse("name", "be an energy", repr(name), closest(name, ENERGIES))
        if population:
            return self._outcome(self._population[name])
        parts, unit = self._plug_in, ENERGIES[name][0]
        if name != "trace" and parts["trace"] <= 0:
            return self._outcome(unknown(name, unit, "all gradients are zero"))
        value = ENERGIES[name][2](parts)
        return self._outcome(Outcome(name, float(value), unit, note=self._how(True)))

    @cached_property
    def _plug_in(self) -> dict[str, float]:
        if isinstance(self.sums, KeptFactors):
            return dict(self.sums.plug_in())
        g, diagonal = self.matrix, np.diag(self.matrix)
        return {
            "whole": float(np.square(g).sum()),
            "diagonal": float(diagonal @ diagonal),
            "trace": float(diagonal.sum()),
            "trace2": float(diagonal.sum()) ** 2,
            "width": float(len(g)),
        }

    @cached_property
    def _population(self) -> dict[str, Outcome]:
        return self.sums.population() if isinstance(self.sums, KeptFactors) else population_energies(self.sums)

    def _how(self, biased: bool) -> str:
        kind = "exact" if self.about.probes is None else f"{self.about.probes} probes a sample"
        return f"of these {self.about.n} samples, {kind}" + ("; population=True: unbiased" if biased else "")

    def _outcome(self, outcome: Outcome) -> Outcome:
        """With provenance."""
        plain = {**asdict(self.about), "notes": list(self.about.notes)}
        values = {**asdict(outcome), "provenance": plain, "n": self.about.n, "n_unit": "samples"}
        return Outcome(**values)
