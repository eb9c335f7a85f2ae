"""Energies without the matrix: the factors themselves are kept, and ⟨G_i, G_j⟩ = ‖F_i F_jᵀ‖_F².

For D coordinates and r rows in all this takes r D numbers where the matrix takes D²: with 65,536 coordinates and 1,024
rows, 0.25 GiB where the matrix takes 32. Nothing is estimated but what the factors themselves are: energies and the
spectrum, which is that of the small matrix F Fᵀ / n, are exact.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.interaction.factors import scaled
from monoseme.interaction.population import ENERGIES, Parts, outcome_of

__all__ = ["KeptFactors"]

GROUPS = 32


class KeptFactors:
    """Factors (n, m, D) of units, and the energies of their mean outer product.

    Parameters
    ----------
    width
        D.
    keep
        Bytes that the factors may take.
    """

    def __init__(self, width: int, keep: int = 1 << 30) -> None:
        self.width, self.keep, self.n = width, keep, 0
        self.factors: list[Tensor] = []  # of every unit, ÷ its scale
        self.scales: list[float] = []
        self._parts: tuple[Parts, list[dict[str, float]]] | None = None

    @property
    def bytes(self) -> int:
        """Bytes kept."""
        return sum(f.nbytes for f in self.factors)

    @property
    def finite(self) -> bool:
        """Whether no NaN and no infinity has come in."""
        return all(bool(torch.isfinite(f).all()) for f in self.factors)

    @torch.no_grad()
    def add(self, factors: Float[Tensor, "n m D"]) -> None:
        """Add units; a copy is kept."""
        if factors.ndim != 3 or factors.shape[2] != self.width:
            got = f"shape {tuple(factors.shape)}"
            raise refuse("factors", f"be (units, rows, {self.width})", got, "One factor a unit.")
        if self.bytes + factors.nbytes > self.keep:
            got = f"{self.bytes + factors.nbytes:,} after {self.n + len(factors)} units"
            fix = "Ask for fewer inputs or probes, or raise memory."
            raise refuse("memory", f"hold the factors of a matrix that does not fit ({self.keep:,} bytes)", got, fix)
        scale, factors = scaled(factors)
        self.scales += [scale] * len(factors)
        self.n += len(factors)
        self.factors.extend(factors.cpu().clone().unbind())
        self._parts = None

    def merge(self, other: KeptFactors) -> KeptFactors:
        """Both together."""
        if self.width != other.width:
            raise refuse("other", f"have width {self.width}", other.width, "Use the same place and view.")
        both = KeptFactors(self.width, self.keep + other.keep)
        both.n, both.factors = self.n + other.n, [*self.factors, *other.factors]
        both.scales = [*self.scales, *other.scales]
        return both

    def plug_in(self) -> Parts:
        """‖G‖², ‖diag G‖², tr(G)² and tr(G) of the mean over these units."""
        return self._all()[0]

    def population(self, confidence: float = 0.95) -> dict[str, Outcome]:
        """As `population_energies`: mean over pairs of different units, jackknife over groups of units."""
        if self.n < 2:
            return {name: unknown(name, unit, "two units are needed") for name, (unit, _, _) in ENERGIES.items()}
        whole, *without = self._all()[1]
        return {name: outcome_of(name, whole, without, self.n, confidence) for name in ENERGIES}

    def spectrum(self) -> Float64[np.ndarray, " r"]:
        """Eigenvalues of G that can differ from zero, largest first."""
        rows = torch.cat(self.factors)
        units = np.repeat(self.scales, [len(f) for f in self.factors])
        small = (rows @ rows.T).double().numpy() * np.outer(units, units) / self.n
        return np.maximum(np.linalg.eigvalsh(small)[::-1], 0.0)[: self.width]

    def _all(self) -> tuple[Parts, list[dict[str, float]]]:
        if self._parts is None:
            self._parts = self._computed()
        return self._parts

    def _computed(self) -> tuple[Parts, list[dict[str, float]]]:
        """Plug-in parts; unbiased parts of all units, then without each group in turn."""
        squared = np.square(self.scales)
        pairs = self._pairs() * np.outer(squared, squared)
        diagonals = torch.stack([f.square().sum(0) for f in self.factors]).double() * torch.from_numpy(squared)[:, None]
        groups = min(GROUPS, self.n)
        member = np.arange(self.n) % groups
        totals = np.zeros((groups, self.width))
        np.add.at(totals, member, diagonals.numpy())
        own = np.stack([np.diag(pairs), diagonals.square().sum(1), diagonals.sum(1).square()])
        every, n = totals.sum(0), self.n
        parts = {
            "whole": pairs.sum() / n**2,
            "diagonal": every @ every / n**2,
            "trace2": (every.sum() / n) ** 2,
            "trace": every.sum() / n,
            "width": self.width,
        }
        unbiased = [_unbiased(pairs.sum(), every, own.sum(1), n, self.width)]
        if groups >= 8 and n - (n + groups - 1) // groups >= 2:
            for g in range(groups):
                left = member != g
                kept = pairs[np.ix_(left, left)].sum()
                unbiased.append(_unbiased(kept, every - totals[g], own[:, left].sum(1), int(left.sum()), self.width))
        return {name: float(value) for name, value in parts.items()}, unbiased

    def _pairs(self) -> Float64[np.ndarray, "n n"]:
        """⟨G_i, G_j⟩ for all pairs, a block of units at a time."""
        size = max(1, 2048 // max(len(f) for f in self.factors))
        blocks = [self.factors[a : a + size] for a in range(0, self.n, size)]
        strips = [torch.cat([_by_unit(left, right) for right in blocks], 1) for left in blocks]
        return torch.cat(strips).numpy()


def _by_unit(left: list[Tensor], right: list[Tensor]) -> Float64[Tensor, "a b"]:
    """‖F_i F_jᵀ‖² of every unit of one block with every unit of another."""
    squares = (torch.cat(left) @ torch.cat(right).T).double().square()
    by_row = torch.zeros(len(left), squares.shape[1], dtype=torch.float64).index_add_(0, _owners(left), squares)
    return torch.zeros(len(left), len(right), dtype=torch.float64).index_add_(1, _owners(right), by_row)


def _owners(units: list[Tensor]) -> Tensor:
    return torch.arange(len(units)).repeat_interleave(torch.tensor([len(f) for f in units]))


def _unbiased(whole: float, diagonal: np.ndarray, own: np.ndarray, n: int, width: int) -> dict[str, float]:
    pairs = n * (n - 1)
    return {
        "whole": float(whole - own[0]) / pairs,
        "diagonal": float(diagonal @ diagonal - own[1]) / pairs,
        "trace2": float(diagonal.sum() ** 2 - own[2]) / pairs,
        "trace": float(diagonal.sum()) / n,
        "width": float(width),
    }
