"""`evaluate`: the numbers of a featurizer on held-out rows, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from monoseme.core.errors import closest
from monoseme.core.outcome import Outcome
from monoseme.core.protocols import Featurizes, Refine
from monoseme.core.rows import RowSource, as_rows
from monoseme.evaluation.fidelity import fidelity, merge, tally
from monoseme.evaluation.reading import encoded

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, Outcome]):
    """Numbers by name, each with unit, interval and provenance. A mapping; ``print(e.table())`` shows it.

    Attributes
    ----------
    outcomes
        The numbers, in the order they are shown.
    density
        (G,) share of the rows on which each block fires.
    """

    outcomes: tuple[Outcome, ...]
    density: Float64[np.ndarray, " G"] = field(repr=False)

    def __getitem__(self, name: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise KeyError(f"no number is called {name!r}. {closest(name, self)}")

    def __iter__(self) -> Iterator[str]:
        return (outcome.name for outcome in self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{outcome.name} {outcome}' for outcome in self.outcomes)})"

    def including(self, more: Iterable[Outcome]) -> Evaluation:
        """Return this with more numbers behind its own, for example those of `recover`."""
        return Evaluation((*self.outcomes, *more), self.density)

    def table(self) -> str:
        """Plain text, one aligned line a number: name, value and interval, which way is better, how it was measured."""
        return table(self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"outcomes": [outcome.to_json() for outcome in self.outcomes], "density": self.density.tolist()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Evaluation:
        """Inverse of `to_json`."""
        outcomes = tuple(Outcome.from_json(outcome) for outcome in plain["outcomes"])
        return cls(outcomes, np.array(plain["density"], dtype=np.float64))


def table(outcomes: Iterable[Outcome]) -> str:
    """Aligned lines of name, value, direction and note.

    Examples
    --------
    >>> print(table([Outcome("fvu", 0.25, "1", better="lower", note="8 rows"), Outcome("l0", 4.0, "blocks/row")]))
    fvu  0.25          lower is better  8 rows
    l0   4 blocks/row
    """
    cells = [
        # an unknown number has said its note already, as the reason
        (o.name, str(o), f"{o.better} is better" if o.better else "", o.note if o.known else "")
        for o in outcomes
    ]
    widths = [max((len(row[i]) for row in cells), default=0) for i in range(4)]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells)


@torch.no_grad()
def evaluate(
    featurizer: Featurizes,
    rows: RowSource | Tensor | np.ndarray,
    *,
    batch_size: int = 4096,
    refine: Refine = None,
    samples: str = "samples",
    groups: Int[Tensor, " samples"] | None = None,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Measure fidelity and sparsity on rows the featurizer was not fitted on.

    Parameters
    ----------
    featurizer
        Anything that encodes and decodes (see `core.protocols.Featurizes`).
    rows
        Held-out rows. Each is traceable to a sample; the intervals resample samples, because rows of one picture are
        not independent. Of a plain array every row is a sample.
    batch_size
        Rows encoded at once; changes memory, not numbers.
    refine
        Improve the codes at inference: ``"ls"`` or ``"omp"``.
    samples
        What is resampled, for the notes: ``"pictures"``, ``"documents"``.
    groups
        Sample → group, where samples themselves belong together: windows of a document, copies of a picture. The
        intervals then resample groups.
    seed
        Of the resampling.
    provenance
        Written into every number: data, split, versions.

    Returns
    -------
    Evaluation
        ``fvu``, ``l0``, ``active_dims``, ``dead_share`` (see `fidelity`), and the densities.

    Raises
    ------
    UserError
        No rows, another width than the featurizer's, or a row that is not finite.
    """
    source = as_rows(rows)
    stats = merge(
        [
            tally(batch.x, featurizer.decode(code), code, _units(batch.sample, groups), source.moments.mean)
            for batch, code in encoded(featurizer, source, batch_size, refine)
        ]
    )
    given = {**(provenance or {}), "refine": refine}
    outcomes = tuple(replace(outcome, provenance=given) for outcome in fidelity(stats, samples, seed).values())
    return Evaluation(outcomes, stats.firings / stats.moments.count)


def _units(sample: Int[Tensor, " n"], groups: Int[Tensor, " samples"] | None) -> Int[Tensor, " n"]:
    return sample if groups is None else groups[sample.cpu().long()]
