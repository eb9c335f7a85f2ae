"""What a sparse autoencoder would make of concepts you already have, before one is trained.

The concepts are taken as a dictionary and certified: a stable one could be a latent as it is; an unstable one would be
absorbed or split, and the partners say by whom; one that is on more than half of the time calls for an antipode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.optimality import reading
from monoseme.optimality.certification import Certification
from monoseme.optimality.certify import CertifySettings, certify_latents
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.wide import check_lam

__all__ = ["Hypothesis", "hypothesis"]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Fates of concepts.

    Attributes
    ----------
    names
        One a concept.
    fates
        ``"stays"``, ``"absorbed or split"``, ``"doubled"`` (an antipode wins), or ``"not known"``.
    certification
        The certificates behind them.
    """

    names: tuple[str, ...]
    fates: tuple[str, ...]
    certification: Certification

    def table(self) -> str:
        """Text: one line a concept."""
        features = self.certification.features
        shown = [self._named(f.why) if f.verdict != "stable" else "" for f in features]
        rows = zip(self.names, self.fates, features, shown, strict=True)
        return "\n".join(
            f"{name}: {fate}, on in {f.density:.1%}; strain {f.strain:.3g}. {why}" for name, fate, f, why in rows
        )

    def _named(self, why: str) -> str:
        words = [self.names[int(w)] if w.isdigit() and int(w) < len(self.names) else w for w in why.split(" ")]
        return " ".join(words)


def hypothesis(
    x: np.ndarray | Tensor,
    lam: float,
    *,
    concepts: np.ndarray | Tensor | None = None,
    labels: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    learned_bias: bool = True,
    settings: CertifySettings | None = None,
) -> Hypothesis:
    """Certify concepts as if they were the latents of a dictionary.

    Parameters
    ----------
    x
        (n, d) rows.
    lam
        λ of the dictionary to come, units of x.
    concepts
        (K, d) directions. Codes are then the optimal nonnegative ones at `lam`.
    labels
        (n, K) of 0 and 1, or of intensities ≥ 0, instead of directions or beside them: who is on where. Without
        `concepts` the directions are the least squares of x on the labels.
    bias
        (d,); the mean, or the intercept of the least squares, when left out.
    names
        Of the concepts.
    """
    rows, lam = reading.as_matrix(x, "x"), check_lam(lam)
    if concepts is None and labels is None:
        raise refuse("concepts", "be given, or labels", "neither", "Give (K, d) directions or (n, K) labels.")
    on = None if labels is None else _labels(labels, len(rows))
    if concepts is None:
        assert on is not None
        design = np.concatenate([on, np.ones((len(rows), 1))], 1)
        solution = np.linalg.lstsq(design, rows, rcond=None)[0]
        directions, b = solution[:-1], solution[-1] if bias is None else reading.as_bias(bias, rows.shape[1])
    else:
        directions = reading.as_matrix(concepts, "concepts", rows.shape[1])
        b = rows.mean(0) if bias is None else reading.as_bias(bias, rows.shape[1])
    if on is None:
        latents = resolve_rows(lambda: iter([rows]), directions, b, lam, learned_bias)
    else:
        if on.shape[1] != len(directions):
            raise refuse("labels", f"have {len(directions)} columns", on.shape[1], "One a concept.")
        import torch

        latents = reading.latents(directions, b, Code.from_dense(torch.from_numpy(on).unsqueeze(-1)), learned_bias)

    def batches() -> Iterator[np.ndarray]:
        yield rows

    found = certify_latents(batches, latents, lam, settings)
    called = tuple(names) if names is not None else tuple(f"concept {j}" for j in range(len(directions)))
    if len(called) != len(directions):
        raise refuse("names", f"be {len(directions)}", len(called), "One a concept.")
    return Hypothesis(called, tuple(_fate(f.verdict, f.density, f.antipode_gain, lam) for f in found.features), found)


def _fate(verdict: str, density: float, antipode: float, lam: float) -> str:
    if density > 0.5 and antipode > 1e-9 * lam * lam:
        return "doubled"
    return {"stable": "stays", "unstable": "absorbed or split", "unknown": "not known"}[verdict]


def _labels(labels: np.ndarray, n: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or len(array) != n or array.shape[1] == 0:
        raise refuse("labels", f"be numbers of the shape ({n}, K)", (array.dtype, array.shape), "One row each.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any():
        raise refuse("labels", "be finite and at least 0", "other values", "0 is off, more is on.")
    return array
