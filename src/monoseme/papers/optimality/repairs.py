"""What repair buys on a real dictionary: as given, refitted, and edited by certificates before the refit.

All are read on held-out rows with codes solved anew, at a λ of their own that gives each the FVU of the dictionary as
given (to `WITHIN`), so that what differs is L0, and what the latents are. Refitting alone is the control: it lowers
the loss too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from monoseme.evaluation.absorption import absorption
from monoseme.featurizers import Featurizer
from monoseme.optimality import repair
from monoseme.optimality.certify import certify_latents
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.latents import Latents
from monoseme.optimality.solve import descend
from monoseme.papers.optimality.certificates import SETTINGS, matrix
from monoseme.papers.optimality.labels import Labelled

__all__ = ["equal_fvu", "repaired"]

ROWS, EDITS, WITHIN = 4000, 20, 0.001
REFIT_ROWS, ROUNDS = 16_000, 10  # on fewer rows a refit overfits
Pair = tuple[np.ndarray, np.ndarray]


def repaired(
    f: Featurizer, other: Featurizer, train: Tensor, held: Tensor, known: Labelled, lam: float
) -> dict[str, Any]:
    """Numbers of the dictionary as given, refitted, edited, and edited and refitted; `other` is a second seed."""
    more, test = train[:REFIT_ROWS].double().numpy(), held[:ROWS].double().numpy()
    x = more[:ROWS]
    given = f.atoms[:, 0].double().numpy(), f.bias.double().numpy()
    edited = repair(x, given[0], matrix(_codes(x, given, lam)).toarray(), given[1], lam,
                    edits=EDITS, refit=0, settings=SETTINGS)  # fmt: skip
    pairs = {
        "given": given,
        "refitted": descend(more, *given, lam, True, ROUNDS, 1e-7)[:2],
        "edited": (edited.atoms, edited.bias),
        "edited and refitted": descend(more, edited.atoms, edited.bias, lam, True, ROUNDS, 1e-7)[:2],
    }
    fvu = _fvu(test, given, _codes(test, given, lam))
    second = other.atoms[:, 0].double().numpy()
    return {
        "edits": [[edit.promised / edited.before, edit.gained / edited.before, edit.words] for edit in edited.edits],
        "numbers": {name: _numbers(test, pair, lam, fvu, known, second) for name, pair in pairs.items()},
    }


def equal_fvu(x: Float64[np.ndarray, "n d"], pair: Pair, lam: float, fvu: float) -> tuple[float, Latents]:
    """The λ at which optimal codes of these rows have that FVU, by bisection, and the codes."""
    low, high = lam / 16, lam * 16
    for _ in range(30):
        middle = float(np.sqrt(low * high))
        codes = _codes(x, pair, middle)
        here = _fvu(x, pair, codes)
        if abs(here / fvu - 1) < WITHIN:
            return middle, codes
        low, high = (middle, high) if here < fvu else (low, middle)
    raise RuntimeError(f"no lam within a factor of 16 gives an FVU of {fvu:.4g}")


def _numbers(
    x: np.ndarray, pair: Pair, lam: float, fvu: float, known: Labelled, second: np.ndarray
) -> dict[str, float]:
    lam, codes = equal_fvu(x, pair, lam, fvu)
    found = certify_latents(lambda: iter([x]), codes, lam, SETTINGS)
    live = [feature for feature in found.features if feature.density > 0]
    absorbed = absorption(known.x, matrix(_codes(known.x, pair, lam)).tocsc(), *pair, known.labels, known.groups)
    return {
        "lam": lam,
        "fvu": _fvu(x, pair, codes),
        "l0": len(codes.values) / len(x),
        "loss": found.loss.value or float("nan"),
        "live": float(len(live)),
        "unstable": sum(feature.verdict == "unstable" for feature in live) / len(live),
        "unknown": sum(feature.verdict == "unknown" for feature in live) / len(live),
        "recurring": float(((pair[0] @ second.T).max(1) > 0.7).mean()),
        "absorption": float(np.mean(list(absorbed.rate.values()))),
    }


def _codes(x: np.ndarray, pair: Pair, lam: float) -> Latents:
    return resolve_rows(lambda: (x[i : i + 4096] for i in range(0, len(x), 4096)), *pair, lam)


def _fvu(x: np.ndarray, pair: Pair, codes: Latents) -> float:
    error = x - pair[1] - matrix(codes) @ pair[0]
    return float(np.square(error).sum() / np.square(x - x.mean(0)).sum())
