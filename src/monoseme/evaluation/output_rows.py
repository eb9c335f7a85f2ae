"""Which part of a model's output is compared, told from its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from monoseme.core.errors import refuse

__all__ = ["Kind", "OutputRows", "output_rows"]

Kind = Literal["language", "classifier", "output"]


class OutputRows(NamedTuple):
    """n rows of an output: what they are, their values, the sample of each, and for a language model the next token.

    ``kind`` is

    - ``"language"``: logits (B, T, V) of ``input_ids`` (B, T). Rows are the real positions whose next
      token is real; the last of a text has none.
    - ``"classifier"``: logits (B, C). Rows are samples.
    - ``"output"``: anything else. Rows are samples, flattened, or the real tokens where there is a mask of (B, T).
    """

    kind: Kind
    values: Float[Tensor, "n V"]
    owner: Int[Tensor, " n"]
    targets: Int[Tensor, " n"] | None


def output_rows(output: Any, x: Any, vocabulary: int = 0) -> OutputRows:
    """Rows of the output that a model gave for `x`.

    Parameters
    ----------
    output
        A tensor, a tuple that starts with one, or an object with ``.logits`` or ``.last_hidden_state``. A tensor
        (B, T, V) of ``input_ids`` is taken for logits if V is at least `vocabulary`.
    x
        The input.
    vocabulary
        Number of ids of the model's tokenizer, if it has one.

    Raises
    ------
    UserError
        The output is something else, or logits for fewer tokens than the input has ids.
    """
    values, is_logits = _main(output)
    ids, mask = (x.get("input_ids"), x.get("attention_mask")) if isinstance(x, Mapping) else (None, None)
    owner = torch.arange(len(values), device=values.device)
    is_logits = is_logits and values.ndim == 3 and values.shape[2] >= vocabulary
    if is_logits and ids is not None and values.shape[:2] == ids.shape:
        return _next_tokens(values, ids, mask)
    if values.ndim == 2:
        return OutputRows("classifier", values, owner, None)
    if mask is not None and values.ndim == 3 and values.shape[:2] == mask.shape:
        real = mask.bool()
        return OutputRows("output", values[real], owner[:, None].expand_as(real)[real], None)
    return OutputRows("output", values.flatten(1), owner, None)


def _next_tokens(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"], mask: Tensor | None) -> OutputRows:
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    counted = real[:, :-1] & real[:, 1:]
    targets, owner = ids[:, 1:][counted], counted.nonzero()[:, 0]
    if bool((targets >= logits.shape[2]).any()):
        raise refuse(
            "model",
            f"have logits of all tokens, {int(targets.max()) + 1} or more",
            logits.shape[2],
            "If its output is no logits, return it as .last_hidden_state.",
        )
    return OutputRows("language", logits[:, :-1][counted], owner, targets)


def _main(output: Any) -> tuple[Tensor, bool]:
    """The tensor that is compared, and whether it may be logits."""
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    for found, is_logits in (
        (getattr(output, "logits", None), True),
        (getattr(output, "last_hidden_state", None), False),
        (first, True),
    ):
        if isinstance(found, Tensor) and found.ndim > 1:
            return found, is_logits
    raise refuse(
        "model",
        "return a tensor of a row or more a sample, a tuple that starts with one, .logits or .last_hidden_state",
        type(output).__name__,
        "Wrap it in a module that does.",
    )
