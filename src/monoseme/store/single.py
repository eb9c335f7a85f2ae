"""`single`: the rows of one more sample, as the harvest of a store would have made them. Nothing is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models import HookedModel
from monoseme.store.batches import padded
from monoseme.store.data import as_source
from monoseme.store.inputs import activations, known_ids, model_input
from monoseme.store.layout import even_layout, window_layout
from monoseme.store.norms import norms
from monoseme.store.policy import TokenPolicy
from monoseme.store.recipe import DTYPES
from monoseme.store.store import ActivationStore
from monoseme.store.windows import Windows, as_windows

__all__ = ["Single", "policy_of", "single"]


class Single(NamedTuple):
    """Rows of one sample.

    Attributes
    ----------
    rows
        (n, d_in) activations in raw units, rounded to the dtype of the store: one for every token that is kept.
    positions
        (n,) where those tokens stand on the grid, counted row by row.
    grid
        (height, width) of the tokens; (1, T) of a text.
    pieces
        What each of the T tokens of a text shows as; empty for a picture.
    windows
        Windows that a text was cut into; the rows are the first one's.
    """

    rows: Float[Tensor, "n d"]
    positions: Int64[Tensor, " n"]
    grid: tuple[int, int]
    pieces: tuple[str, ...]
    windows: int


def policy_of(store: ActivationStore) -> TokenPolicy:
    """Which tokens became rows of this store."""
    kept = dict(store.manifest["tokens"]["policy"])
    if kept.get("positions") is not None:
        kept["positions"] = tuple(kept["positions"])
    try:
        return TokenPolicy(**kept)
    except TypeError:
        raise refuse("store", "name a known token policy", sorted(kept), "Harvest it anew.") from None


def single(store: ActivationStore, model: HookedModel, item: Any) -> Single:
    """Run the model of a store on a sample that is not in it, and keep the tokens that its harvest would have kept.

    Parameters
    ----------
    store
        Gives the hook, the token policy, the limit of norms and the dtype.
    model
        The model that was harvested. It is not compared with the store's here: that reads all of its weights.
    item
        A `Sample`, a text, or an input of the model without its batch axis.

    Raises
    ------
    UserError
        For a text without tokens, a sample the model cannot take, no row that is kept, or rows of another width.
    """
    hook, policy = store.manifest["hook"], policy_of(store)
    source = as_windows(model, as_source([item]), policy)
    text = source if isinstance(source, Windows) else None
    first = model_input(model, source[0])
    x = first.unsqueeze(0) if text is None else padded([first], policy.padding == "left")
    with torch.no_grad(), known_ids(model, text, x):
        tokens = activations(model, x, hook)
    if text is None:
        layout = even_layout(1, tokens.shape[1], model.grid(hook), policy)
    else:
        layout = window_layout(text, [0], policy)
    if tokens.shape[2] != store.d_in:
        got = f"{tokens.shape[2]} at {hook!r}"
        raise refuse("model", f"give rows of width {store.d_in}, as the store's", got, "Open the model of the store.")
    positions = layout.kept(0)
    rows = tokens[0, (positions + layout.offset(0, tokens.shape[1])).to(tokens.device)].cpu()
    rows, positions = _below(store, rows, positions)
    pieces = () if text is None or text.tokenizer is None else tuple(text.tokenizer.pieces(text[0].ids.tolist()))
    rows = rows.to(DTYPES[store.manifest["dtype"]]).float()
    if not rows.isfinite().all():
        raise refuse("item", "give finite activations", "NaN or infinity", "Check the sample and the model.")
    return Single(rows, positions.long(), layout.grids[0], pieces, 1 if text is None else len(text))


def _below(store: ActivationStore, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Rows whose norm the harvest would not have dropped."""
    norm = store.manifest["tokens"].get("norm")
    if norm is not None:
        kept = norms(rows) <= float(norm["limit"])
        rows, positions = rows[kept], positions[kept]
    if not len(rows):
        raise refuse("item", "have a token that the store would keep", "none", "Try another.")
    return rows, positions
