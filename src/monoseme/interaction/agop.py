"""`agop`: the average gradient outer product of any network, at any place, on either side.

With J_i (K, D) the Jacobian of K outputs with respect to the D coordinates at a place, for sample i,

    input side   G = mean_i J_iᵀ J_i   (D, D)   which directions at the place the outputs are sensitive to
    output side  G = mean_i J_i J_iᵀ   (K, K)   which outputs move together

At T tokens or patches the input side sums over outputs and averages over positions (`positions="sum"`: adds them up);
the output side runs over all coordinates of all positions. Radhakrishnan et al., arXiv 2212.13881; which of these a
published number used: `conventions`.
"""

from __future__ import annotations

from typing import Any, overload

from torch import Tensor, nn

from monoseme.core.errors import closest, refuse
from monoseme.interaction.engine import Done, Job, collected
from monoseme.interaction.functions import Function, function
from monoseme.interaction.how import How
from monoseme.interaction.kept import KeptFactors
from monoseme.interaction.matrix import About, Agop
from monoseme.interaction.pieces import batches
from monoseme.interaction.places import Place, place
from monoseme.interaction.views import Flat, OneHot, Own, Patches, Windows
from monoseme.models import HookedModel, open_model

__all__ = ["agop"]

AUTOMATIC = How()


@overload
def agop(
    model: nn.Module | HookedModel | str,
    inputs: Any,
    at: str | None = None,
    *,
    side: str = "input",
    of: str | Function = "logits",
    probes: int | None = None,
    targets: Tensor | None = None,
    how: How = AUTOMATIC,
) -> Agop: ...
@overload
def agop(
    model: nn.Module | HookedModel | str,
    inputs: Any,
    at: list[str],
    *,
    side: str = "input",
    of: str | Function = "logits",
    probes: int | None = None,
    targets: Tensor | None = None,
    how: How = AUTOMATIC,
) -> dict[str, Agop]: ...
def agop(
    model: nn.Module | HookedModel | str,
    inputs: Any,
    at: str | list[str] | None = None,
    *,
    side: str = "input",
    of: str | Function = "logits",
    probes: int | None = None,
    targets: Tensor | None = None,
    how: How = AUTOMATIC,
) -> Agop | dict[str, Agop]:
    """Average gradient outer product at one place, or at several from one pass.

    The model runs in evaluation mode with frozen weights and is as it was afterwards.

    Parameters
    ----------
    model
        Any module, or a name that `open_model` knows.
    inputs
        A tensor, a tuple of arguments or a dict of keyword arguments, samples on the first axis; or an iterable of
        such batches.
    at
        Module names: "blocks.3" is that module's input, "blocks.3:out" its output (where harvested rows come from),
        "layer#1" its second call, None or "x" the network's own input. The input of an embedding is the distribution
        over its symbols (one-hot); of a convolution, its patches. A list gives a dict, all from one pass.
    side
        "input" (D, D) or "output" (K, K).
    of
        "logits" (n, K); "last", "mean": last position, or mean of all, of (n, T, K); "outputs": all numbers; "loss",
        which needs `targets` and is summed over positions; or a function (output, piece) -> (n, K), where
        ``piece.inputs`` and ``piece.targets`` are those of the same samples.
    probes
        None: exact. m: sketched with m random combinations, independent for every sample, of outputs (input side) or of
        coordinates (output side); unbiased for G, but plug-in energies of it are too large: use ``population=True``.
        Exact costs no more where m ≥ K.
    targets
        For "loss": class numbers, or values of the outputs' shape.
    how
        Everything else that changes the number or its cost.

    Returns
    -------
    Agop or dict of Agop
        Unit: (outputs per unit of the coordinates)². Neither higher nor lower is better.

    Raises
    ------
    UserError
        For a place without gradient, samples that mix, and other input that has no answer.

    Examples
    --------
    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> both = agop(net, torch.ones(5, 3), at=["x", "2"])
    >>> both["x"].matrix.shape, both["2"].matrix.shape
    ((3, 3), (4, 4))
    """
    if side not in ("input", "output"):
        raise refuse("side", "be 'input' or 'output'", repr(side), closest(str(side), ["input", "output"]))
    if probes is not None and probes < 1:
        raise refuse("probes", "be at least 1, or None for an exact matrix", probes, "Try 16.")
    names: list[str | None] = [*at] if isinstance(at, list) else [at]
    if not names or len(set(names)) < len(names):
        raise refuse("at", "name different places, at least one", names, "See .hooks() of the opened model.")
    opened = open_model(model)
    places = [place(opened, name, how.view, how.window) for name in names]
    done = collected(Job(opened, places, function(of), side, probes, how), batches(inputs, targets))
    label = of if isinstance(of, str) else getattr(of, "__name__", type(of).__name__)
    made = [
        Agop(sums, _about(done, index, places[index], side, label, probes, how)) for index, sums in enumerate(done.sums)
    ]
    return {one.name: result for one, result in zip(places, made, strict=True)} if isinstance(at, list) else made[0]


def _about(done: Done, index: int, where: Place, side: str, of: str, probes: int | None, how: How) -> About:
    sums, (tokens, _) = done.sums[index], done.pilot.rows[index]
    view = {Flat: "flat", Patches: "patches", Windows: "windows", OneHot: "one-hot"}.get(type(where.view), "tokens")
    if isinstance(where.view, Own) and len(done.pilot.shapes[index]) >= 4:
        view = "flat"
    return About(
        at=where.name,
        side=side,
        of=of,
        view=view,
        positions=how.positions if side == "input" else "sum",
        width=sums.width,
        tokens=tokens,
        outputs=done.pilot.outputs,
        n=sums.n,
        method=done.method,
        probes=probes,
        law="" if probes is None else how.law,
        seed=None if probes is None else how.seed,
        passes=done.passes,
        chunk=done.chunk,
        formed=not isinstance(sums, KeptFactors),
        notes=done.notes,
    )
