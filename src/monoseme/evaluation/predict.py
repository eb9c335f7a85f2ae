"""Predicting one known contribution from a few blocks of a sparse code, without ever writing the code out."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from monoseme.core.code import Code

__all__ = ["Firings", "greedy"]


class Firings:
    """Entries of a code sorted by block, with the atoms, in float64.

    Parameters
    ----------
    code
        Codes of n rows.
    atoms
        (G, b, d) in raw units.
    """

    def __init__(self, code: Code, atoms: Float[Tensor, "G b d"]) -> None:
        self.atoms = atoms.detach().double().cpu()
        self.n_rows = code.n_rows
        self.indptr, self.indices = code.indptr.cpu(), code.indices.long().cpu()
        self.values = code.values.detach().double().cpu()
        self.counts: Int64[np.ndarray, " G"] = code.counts().cpu().numpy()
        self._order = torch.argsort(self.indices, stable=True)
        self._rows = code.rows.cpu()[self._order]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)])

    def of(self, block: int) -> tuple[Int[Tensor, " m"], Float64[Tensor, "m b"]]:
        """Rows on which a block fires, ascending, and its coordinates there."""
        part = slice(self._starts[block], self._starts[block + 1])
        return self._rows[part], self.values[self._order[part]]

    def r2(self, part: Float64[Tensor, "m d"], rows: Int[Tensor, " m"], blocks: list[int]) -> tuple[float, float]:
        """R² of Σ_g z_g D_g against a contribution, on its own rows and on all rows where either is there.

        Parameters
        ----------
        part
            The contribution on the rows where it is there.
        rows
            These rows; elsewhere it is 0.
        blocks
            Blocks whose summed contributions predict it.
        """
        frame = self.atoms[blocks].flatten(0, 1)  # (blocks · b, d)
        code = torch.zeros(self.n_rows, len(frame), dtype=torch.float64)
        anywhere = torch.zeros(self.n_rows, dtype=torch.bool)
        b = self.atoms.shape[1]
        for slot, block in enumerate(blocks):
            where, values = self.of(block)
            code[where, slot * b : (slot + 1) * b] = values
            anywhere[where] = True
        anywhere[rows] = False
        elsewhere = code[anywhere]
        error = (part - code[rows] @ frame).square().sum()
        spill = ((elsewhere @ (frame @ frame.T)) * elsewhere).sum()  # Σ‖z D‖² where m = 0
        m, outside = len(rows), len(elsewhere)
        mean, mean_all = part.mean(0), part.sum(0) / (m + outside)
        total = (part - mean).square().sum()
        total_all = (part - mean_all).square().sum() + outside * mean_all.square().sum()
        none = 1e-12 * part.square().sum()  # a constant part has a variance of rounding errors, and no R²
        return _share(error, total, none), _share(error + spill, total_all, none)


def _share(error: Float64[Tensor, ""], total: Float64[Tensor, ""], none: Float64[Tensor, ""]) -> float:
    return 1 - float(error / total) if total > none else float("nan")


def greedy(
    firings: Firings, local: Float64[Tensor, "m s"], span: Float64[Tensor, "s d"], rows: Int[Tensor, " m"], count: int
) -> list[int]:
    """Up to `count` scalar atoms whose summed contributions fit a part best on its rows, added one by one.

    Each step adds the atom that lowers Σ‖m − m̂‖² most, exactly: the gain of atom g with codes z is
    Σ 2 z⟨r, d_g⟩ − z²‖d_g‖², r the present residual. Stops early when no atom lowers it. Needs b = 1.

    Parameters
    ----------
    firings
        Of a code with b = 1.
    local, span
        The part, m = local @ span on `rows`. Its few dimensions make ⟨m, d_g⟩ cheap; later steps subtract Gram rows.
    rows
        The rows where the part is there.
    count
        The most atoms to choose.
    """
    atoms = firings.atoms[:, 0]
    starts, lengths = firings.indptr[rows], firings.indptr[rows + 1] - firings.indptr[rows]
    row_of = torch.repeat_interleave(torch.arange(len(rows)), lengths)
    within = torch.arange(len(row_of)) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    entry = torch.repeat_interleave(starts, lengths) + within
    atom, z = firings.indices[entry], firings.values[entry, 0]
    against = (local[row_of] * (atoms @ span.T)[atom]).sum(1)  # ⟨r, d_g⟩ of every entry
    squares = atoms.square().sum(1)[atom]
    chosen: list[int] = []
    while len(chosen) < count:
        gain = torch.zeros(len(atoms), dtype=torch.float64).index_add_(0, atom, z * (2 * against - z * squares))
        gain[chosen] = 0
        if gain.max() <= 0:
            break
        new = int(gain.argmax())
        chosen.append(new)
        code = torch.zeros(len(rows), dtype=torch.float64)
        mine = atom == new
        code[row_of[mine]] = z[mine]
        against = against - code[row_of] * (atoms @ atoms[new])[atom]
    return chosen
