"""The neural feature ansatz: at every linear and convolution layer, WᵀW against a power of the AGOP at its input.

NFM = WᵀW (or of W minus its first value), AGOP = E Σ_k ∇_h f_k ∇_h f_kᵀ, h the layer's input (its patches for a
convolution). The ansatz says NFM ∝ AGOP^p (Radhakrishnan, Beaglehole, Pandit, Belkin, arXiv 2212.13881; there p = 1 is
measured, p = 1/2 holds for balanced linear networks of two layers, 1/L for L). Counter-examples: arXiv 2510.15563.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor, nn

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.interaction.agop import AUTOMATIC, agop
from monoseme.interaction.functions import Function
from monoseme.interaction.how import How
from monoseme.interaction.matrix import Agop
from monoseme.interaction.views import CONVOLUTIONS
from monoseme.models import HookedModel, open_model

__all__ = ["NFA", "LayerAnsatz", "alignment", "nfa"]

POWERS = (0.05, 2.0)  # between which the best is looked for


@dataclass(frozen=True)
class LayerAnsatz:
    """How well one layer's NFM is a power of its AGOP; all of them 1 at best, higher is better.

    Attributes
    ----------
    layer
        Its name.
    power
        p with the largest cosine, between 0.05 and 2.
    cosine, cosine_half, cosine_one
        ⟨NFM, AGOP^p⟩ ÷ norms, at the best p, at 1/2 and at 1. Positive matrices are never far from one another: two
        unrelated ones of participation ratio r have a cosine of about √(r/D), not 0.
    centred
        Pearson correlation of all entries at the best p.
    rank
        Spearman correlation of the entries off the diagonal at the best p.
    """

    layer: str
    power: Outcome
    cosine: Outcome
    cosine_half: Outcome
    cosine_one: Outcome
    centred: Outcome
    rank: Outcome


@dataclass(frozen=True)
class NFA:
    """The layers, in the order of the network."""

    layers: tuple[LayerAnsatz, ...]
    agops: Mapping[str, Agop]

    def table(self) -> str:
        """Text: a line a layer."""
        width = max(len("layer"), *(len(one.layer) for one in self.layers))
        lines = [f"{'layer':<{width}}  best p  cosine   p=1/2     p=1  centred    rank"]
        for one in self.layers:
            numbers = (one.power, one.cosine, one.cosine_half, one.cosine_one, one.centred, one.rank)
            said = " ".join("      –" if n.value is None else f"{n.value:7.3f}" for n in numbers)
            lines.append(f"{one.layer:<{width}} {said}")
        return "\n".join(lines)


def nfa(
    model: nn.Module | HookedModel | str,
    inputs: Any,
    *,
    layers: list[str] | None = None,
    of: str | Function = "logits",
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    probes: int | None = None,
    how: How = AUTOMATIC,
) -> NFA:
    """Compare NFM and AGOP at every linear and convolution layer, in one pass.

    Parameters
    ----------
    model, inputs, of, probes, how
        As for `agop`.
    layers
        Names of layers; all linear and convolution layers by default.
    initial
        The network, or its state, before training: its weights are subtracted.

    Raises
    ------
    UserError
        Where there is no such layer, or `initial` is of another network.
    """
    opened = open_model(model)
    known = {n: m for n, m in opened.module.named_modules() if isinstance(m, (nn.Linear, *CONVOLUTIONS))}
    names = list(known) if layers is None else layers
    for name in names:
        if name not in known:
            raise refuse("layers", "be linear or convolution layers", repr(name), closest(name, known))
    if not names:
        raise refuse("model", "have a linear or convolution layer", type(opened.module).__name__, "Use agop itself.")
    first = dict(initial.state_dict() if isinstance(initial, nn.Module) else initial or {})
    found = agop(opened, inputs, names, of=of, probes=probes, how=how)
    rows = []
    for name in names:
        weight = known[name].weight.detach().flatten(1).double().cpu().numpy()
        if initial is not None:
            weight = weight - _before(first, f"{name}.weight", weight.shape)
        rows.append(_layer(name, weight.T @ weight, found[name]))
    return NFA(tuple(rows), found)


def alignment(
    nfm: Float64[np.ndarray, "D D"], g: Float64[np.ndarray, "D D"], power: float
) -> tuple[float, float, float]:
    """Cosine, Pearson correlation of all entries, Spearman correlation off the diagonal, of NFM and G^power."""
    from scipy.stats import spearmanr

    made = _powered(*np.linalg.eigh(g), power)
    cosine = float((nfm * made).sum() / (np.linalg.norm(nfm) * np.linalg.norm(made)))
    off = np.triu_indices(len(g), 1)
    centred = float("nan")
    if np.ptp(nfm) > 0 and np.ptp(made) > 0:
        centred = float(np.corrcoef(nfm.ravel(), made.ravel())[0, 1])
    rank = float("nan")
    if len(off[0]) and np.ptp(nfm[off]) > 0 and np.ptp(made[off]) > 0:
        rank = float(spearmanr(nfm[off], made[off]).statistic)  # pyright: ignore[reportAttributeAccessIssue]
    return cosine, centred, rank


def _powered(values: np.ndarray, vectors: np.ndarray, power: float) -> np.ndarray:
    top = max(float(values.max()), 0.0)
    kept = np.where(values > 1e-12 * top, values, 0.0)  # what rounding leaves is not raised to a small power
    raised = np.where(kept > 0, np.power(np.where(kept > 0, kept, 1.0), power), 0.0)
    return (vectors * raised) @ vectors.T


def _layer(name: str, nfm: np.ndarray, made: Agop) -> LayerAnsatz:
    labels = ("power", "cosine", "cosine_half", "cosine_one", "centred", "rank")
    g = made.matrix
    if not (np.linalg.norm(nfm) > 0 and np.linalg.norm(g) > 0):
        return LayerAnsatz(name, *(unknown(label, "1", "the weights' change or the AGOP is zero") for label in labels))
    power, edge = _best(nfm, g)
    cosine, centred, rank = alignment(nfm, g, power)
    note = f"of {made.about.n} samples" + (f"; at the edge of the powers tried, {edge:g}" if edge else "")
    values = (power, cosine, alignment(nfm, g, 0.5)[0], alignment(nfm, g, 1.0)[0], centred, rank)
    outcomes = [
        Outcome(label, value, "1", better=None if label == "power" else "higher", note=note)
        if np.isfinite(value)
        else unknown(label, "1", "entries do not vary")
        for label, value in zip(labels, values, strict=True)
    ]
    return LayerAnsatz(name, *outcomes)


def _best(nfm: np.ndarray, g: np.ndarray) -> tuple[float, float]:
    """Power with the largest cosine, of a grid and then between the neighbours of its best; and the edge, if there."""
    from scipy.optimize import minimize_scalar

    values, vectors = np.linalg.eigh(g)
    turned = np.diag(vectors.T @ nfm @ vectors)  # ⟨NFM, G^p⟩ needs no more
    kept = values > 1e-12 * values.max()
    logs, turned, size = np.log(values[kept]), turned[kept], np.linalg.norm(nfm)

    def cosine(power: float) -> float:
        raised = np.exp(power * (logs - logs.max()))
        return float(turned @ raised / (np.linalg.norm(raised) * size))

    grid = np.linspace(*POWERS, 40)
    at = int(np.argmax([cosine(p) for p in grid]))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found: Any = minimize_scalar(lambda p: -cosine(p), bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    power = float(found.x) if -found.fun >= cosine(grid[at]) else float(grid[at])
    edge = next((e for e in POWERS if abs(power - e) < 1e-3), 0.0)
    return power, edge


def _before(state: Mapping[str, Tensor], key: str, shape: tuple[int, ...]) -> np.ndarray:
    if key not in state:
        raise refuse("initial", f"have {key}", ", ".join(list(state)[:4]), "Pass the same network before training.")
    before = state[key].detach().flatten(1).double().cpu().numpy()
    if before.shape != shape:
        raise refuse("initial", f"have {key} of shape {shape}", before.shape, "Pass the same network.")
    return before
