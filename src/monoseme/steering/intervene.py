"""Interventions: within a ``with``, a model runs with one block's contribution replaced, added to, clamped or removed.

x' = x - z_g D_g + w D_g at chosen tokens, and in chosen forward passes (steps of a generation or of a diffusion). All
else of the activation, what the featurizer does not explain too, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes
from monoseme.models import HookedModel

__all__ = ["Direction", "Tokens", "edited", "positions", "steer"]

MODES = ("replace", "add", "clamp", "ablate")
Moves = Callable[[Float[Tensor, "n b"]], Float[Tensor, "n b"]]
Code = Float[Tensor, " b"] | np.ndarray | Moves
Tokens = slice | Sequence[int] | int | None


@dataclass(frozen=True, eq=False)
class Direction:
    """A single direction with a strength: what steering with an SAE latent or a difference of means adds.

    Attributes
    ----------
    vector
        (d,); `strength` times it is added.
    strength
        In units of the vector.
    """

    vector: Float[Tensor, " d"]
    strength: float = 1.0


@contextmanager
def steer(
    model: HookedModel,
    at: str,
    what: Featurizes | Direction,
    *,
    block: int | None = None,
    to: Code | None = None,
    mode: str = "replace",
    tokens: Tokens = None,
    steps: Sequence[int] | None = None,
) -> Iterator[HookedModel]:
    """Run the model with an edit at a hook.

    Parameters
    ----------
    model, at
        As in `HookedModel.edit`; one forward pass at a time.
    what
        A featurizer of this hook, with `block`; or a `Direction`, which is added.
    block, to
        Which block, and the code w it is moved to, (b,) in the block's coordinates; or a function from the codes where
        it fires, (n, b), to those they are moved to, for ``"clamp"`` alone (see `walks.along`).
    mode
        ``"replace"``: its contribution becomes w D everywhere. ``"clamp"``: only where it fires. ``"add"``: w D is
        added to what is there. ``"ablate"``: it is taken away; `to` is left out.
    tokens
        Positions of the hook's tokens: a number, several, or a slice; all by default.
    steps
        Forward passes since the ``with`` began, counted from 0; all by default. Of a pipeline (`HookedPipeline`):
        denoising steps of every picture.

    Raises
    ------
    UserError
        An unknown hook, block or mode; a code of another size; tokens that are not there; a width that does not fit.
    """
    change = _change(what, block, to, mode)
    wanted = None if steps is None else set(steps)
    with model.counting() as step:

        def edit(x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
            if wanted is not None and step() not in wanted:
                return x
            where = positions(tokens, x.shape[1])
            moved = x.clone()
            moved[:, where] = x[:, where] + change(x[:, where]).to(x.dtype)
            return moved

        with model.edit(at, edit) as edited_model:
            yield edited_model


def edited(
    x: Float[Tensor, "*batch d"],
    what: Featurizes | Direction,
    *,
    block: int | None = None,
    to: Code | None = None,
    mode: str = "replace",
) -> Float[Tensor, "*batch d"]:
    """Rows with the edit that `steer` makes, without a model."""
    return x + _change(what, block, to, mode)(x).to(x.dtype)


def _change(what: Featurizes | Direction, block: int | None, to: Code | None, mode: str) -> Callable[[Tensor], Tensor]:
    if isinstance(what, Direction):
        vector = what.strength * what.vector.detach()
        return lambda x: _fits(x, len(vector)) + vector.to(x.device, torch.promote_types(x.dtype, vector.dtype))
    if mode not in MODES:
        raise refuse("mode", f"be one of {', '.join(MODES)}", repr(mode), "replace is the paper's.")
    atoms = what.atoms.detach()
    if block is None or not 0 <= block < len(atoms):
        raise refuse("block", f"lie in 0..{len(atoms) - 1}", block, "Say which block of the featurizer.")
    if (to is None) != (mode == "ablate"):
        raise refuse(
            "to", "be given, but for ablate", f"{mode} with {type(to).__name__}", "It is the block's new code."
        )
    if callable(to) and mode != "clamp":
        raise refuse("mode", "be 'clamp' where `to` is a function of codes", repr(mode), "Elsewhere there is no code.")
    target = torch.zeros(atoms.shape[2], dtype=torch.float64, device=atoms.device)
    if to is not None and not callable(to):
        code = torch.as_tensor(to, dtype=torch.float64).to(atoms.device)
        if code.shape != (atoms.shape[1],):
            raise refuse(
                "to", f"have {atoms.shape[1]} coordinates", tuple(code.shape), "Codes of this featurizer's block."
            )
        target = code @ atoms[block].double()

    def change(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        _fits(x, atoms.shape[2])
        if mode == "add":
            return target.to(x.device).expand_as(x)
        flat = x.reshape(-1, x.shape[-1])
        code = what.encode(flat.to(atoms))
        mine = code.entries_of(block)
        there = torch.zeros(len(flat), atoms.shape[2], dtype=torch.float64, device=atoms.device)
        there[code.rows[mine]] = code.values[mine].double() @ atoms[block].double()
        goes = target - there
        if callable(to):
            goes = torch.zeros_like(there)
            now = code.values[mine].double()
            goes[code.rows[mine]] = (_moved(to, now) - now) @ atoms[block].double()
        elif mode in ("clamp", "ablate"):
            fires = torch.zeros(len(flat), 1, dtype=torch.float64, device=atoms.device)
            fires[code.rows[mine]] = 1
            goes = goes * fires
        return goes.reshape(x.shape).to(x.device)

    return change


def _moved(to: Moves, codes: Float[Tensor, "n b"]) -> Float[Tensor, "n b"]:
    found = to(codes)
    if found.shape != codes.shape:
        raise refuse("to", f"return codes {tuple(codes.shape)}", tuple(found.shape), "A row a code.")
    return found.to(codes)


def _fits(x: Tensor, d: int) -> Tensor:
    """Zeros of x's shape, in double; refuses rows of another width."""
    if x.shape[-1] != d:
        raise refuse("at", f"give rows of width {d}", x.shape[-1], "Use the hook that the featurizer was fitted on.")
    return torch.zeros(x.shape, dtype=torch.float64, device=x.device)


def positions(tokens: Tokens, T: int) -> list[int]:
    """Positions among T tokens, as a list; refuses those that are not there."""
    if tokens is None:
        return list(range(T))
    if isinstance(tokens, slice):
        found = list(range(T))[tokens]
    else:
        found = [tokens] if isinstance(tokens, int) else list(tokens)
    wrong = [i for i in found if not -T <= i < T]
    if wrong or not found:
        raise refuse("tokens", f"lie in 0..{T - 1}", wrong[0] if wrong else "none", "Count the hook's own tokens.")
    return found
